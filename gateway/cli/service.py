"""`hermes service`: runs Hermes as a systemd user service."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from agent.errors import HermesError
from gateway.cli import Options, load_config
from gateway.cli.output import console

if TYPE_CHECKING:
    from gateway.config.loader import LoadedConfig

_INSTALL = "`hermes service install` does that"


class ServiceFailed(HermesError):
    """The service command failed:"""


@click.group()
def service() -> None:
    """Run Hermes as a service of this user, under systemd."""


@service.command()
@click.option("--print", "only_print", is_flag=True, help="Only print the unit; change nothing.")
@click.option("--no-start", is_flag=True, help="Start the service at the next login, not now.")
@click.pass_obj
def install(options: Options, only_print: bool, no_start: bool) -> None:
    """Write the unit, start Hermes now and at every login.

    Run it again after an update of Hermes or a change of `gateway.drain_seconds` or `storage.path`.
    """
    from gateway.cli.systemd_unit import UNIT, unit_text  # noqa: PLC0415
    from gateway.config.loader import ensure_home  # noqa: PLC0415 - not for `--help`

    loaded = load_config(options)
    text = unit_text(loaded)
    if only_print:
        click.echo(text, nl=False)
        return
    systemctl = _program("systemctl")
    ensure_home(loaded.home)
    path = _unit_path()
    try:
        # systemd does not start a service whose writable folders do not exist.
        loaded.database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ServiceFailed(f"{error.filename or path}: {error.strerror}.") from None
    _say(f"Wrote {path}")
    for note in _notes(loaded):
        _say(f"Note: {note}")
    _run(systemctl, "--user", "daemon-reload")
    _run(systemctl, "--user", "enable", UNIT)
    if not no_start:
        _run(systemctl, "--user", "restart", UNIT, hint="`hermes service logs` shows why.")
        _say("Hermes runs. `hermes service logs -f` shows what it does.")
    _say("It stops when you log out. After `loginctl enable-linger` it starts at boot and keeps running.")


@service.command()
def uninstall() -> None:
    """Stop Hermes and remove the unit. Conversations and settings stay."""
    from gateway.cli.systemd_unit import UNIT  # noqa: PLC0415 - not for `--help`

    path = _unit_path()
    if not path.exists():
        _say(f"There is nothing to remove: {path} does not exist.")
        return
    systemctl = _program("systemctl")
    try:
        _run(systemctl, "--user", "disable", "--now", UNIT)
    finally:
        # Also if no service manager answers: nothing runs then, and nothing may start at the next login.
        path.unlink(missing_ok=True)
    _run(systemctl, "--user", "daemon-reload")
    _say(f"Removed {path}. Conversations and settings are unchanged.")


@service.command()
@click.pass_obj
def status(options: Options) -> None:
    """Show the status of the service by systemctl. The exit code is systemctl's: 0 if it runs."""
    from gateway.cli.systemd_unit import UNIT, configuration_in, unit_text  # noqa: PLC0415
    from gateway.config.loader import load  # noqa: PLC0415 - not for `--help`

    path = _unit_path()
    if not path.exists():
        raise ServiceFailed(f"it is not installed; {_INSTALL}.")
    try:
        text = path.read_text(encoding="utf-8")
        if text != unit_text(load(options.config_path or configuration_in(text))):
            _say(f"Note: {path} is not what `hermes service install` would write now; run it again.")
    except HermesError:
        _say("Note: the configuration has mistakes; `hermes config check` lists them.")
    _hand_over(_program("systemctl"), "--user", "status", "--no-pager", UNIT)


@service.command()
@click.option("-f", "--follow", is_flag=True, help="Follow the log until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="The number of newest lines.",
)
def logs(follow: bool, lines: int) -> None:
    """Show the log of the service by journalctl."""
    from gateway.cli.systemd_unit import UNIT  # noqa: PLC0415 - not for `--help`

    journalctl = _program("journalctl")
    if not _unit_path().exists():
        raise ServiceFailed(f"it is not installed; {_INSTALL}.")
    _hand_over(
        journalctl,
        "--user",
        "--unit",
        UNIT,
        "--lines",
        str(lines),
        "--no-pager",
        *(["--follow"] if follow else []),
    )


def _notes(loaded: LoadedConfig) -> Iterator[str]:
    """Yield notes about variables that this shell has and the service would not."""
    from gateway.config.environment import PROVIDER_KEYS, missing_from_dotenv  # noqa: PLC0415 - not for `--help`
    from gateway.config.schema_platforms import token_variables  # noqa: PLC0415

    in_file = {name[1:] for origin in loaded.origins.values() for name in origin.split() if name[0] == "$"}
    names = dict.fromkeys((*PROVIDER_KEYS, *token_variables().values(), *sorted(in_file)))
    if missing := missing_from_dotenv(loaded.home, names):
        yield (
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} set in this shell only, and the service does "
            f"not see that; add {'it' if len(missing) == 1 else 'them'} to {loaded.home / '.env'}."
        )


def _unit_path() -> Path:
    from gateway.cli.systemd_unit import UNIT  # noqa: PLC0415
    from gateway.config.environment import user_unit_directory  # noqa: PLC0415 - not for `--help`

    return user_unit_directory() / UNIT


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ServiceFailed(
            f"{name} was not found, so this machine does not use systemd. Start `hermes run` another way; "
            "`hermes service install --print` shows the systemd unit as a model."
        )
    return found


def _run(*command: str, hint: str = "") -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - no shell
    if done.returncode:
        said = (done.stderr.strip() or f"exit code {done.returncode}").rstrip(".") + "."
        if "bus" in said:
            hint = "Log in as this user (`su` and `sudo` do not count), or set XDG_RUNTIME_DIR to /run/user/$(id -u)."
        raise ServiceFailed(f"`systemctl {' '.join(command[1:])}` says: {said} {hint}".rstrip())


def _hand_over(*command: str) -> NoReturn:
    """Run a command in the foreground and exit with its exit code."""
    try:
        code = subprocess.run(command, check=False).returncode  # noqa: S603 - no shell
    except KeyboardInterrupt:
        code = 0
    raise click.exceptions.Exit(code)


def _say(text: str) -> None:
    console().print(text, soft_wrap=True)
