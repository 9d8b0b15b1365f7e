"""`hermes service`: runs Hermes as a systemd user service."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from agent.errors import HermesError
from gateway.cli import Options, load_config
from gateway.cli.output import say

if TYPE_CHECKING:
    from gateway.config.loader import LoadedConfig

UNIT = "hermes.service"
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
    """Write the unit, and start Hermes now and at every login.

    Run it again after an update of Hermes or a change of `gateway.drain_seconds` or `storage.path`.
    """
    from gateway.config.loader import ensure_home  # noqa: PLC0415 - not for `--help`; so below

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
    say(f"Wrote {path}")
    _note_missing_variables(loaded)
    _run(systemctl, "--user", "daemon-reload")
    _run(systemctl, "--user", "enable", UNIT)
    if not no_start:
        _run(systemctl, "--user", "restart", UNIT, hint="`hermes service logs` shows why.")
        say("Hermes runs. `hermes service logs -f` shows what it does.")
    say("It stops when you log out. After `loginctl enable-linger` it starts at boot and keeps running.")


@service.command()
def uninstall() -> None:
    """Stop Hermes and remove the unit. Conversations and settings stay."""
    path = _unit_path()
    if not path.exists():
        say(f"There is nothing to remove: {path} does not exist.")
        return
    systemctl = _program("systemctl")
    try:
        _run(systemctl, "--user", "disable", "--now", UNIT)
    finally:
        # Also if no service manager answers: nothing runs then, and nothing may start at the next login.
        path.unlink(missing_ok=True)
    _run(systemctl, "--user", "daemon-reload")
    say(f"Removed {path}. Conversations and settings are unchanged.")


@service.command()
@click.pass_obj
def status(options: Options) -> None:
    """Show the status of the service with systemctl, and exit with its exit code: 0 if the service runs."""
    from gateway.config.loader import load  # noqa: PLC0415

    path = _unit_path()
    if not path.exists():
        raise ServiceFailed(f"it is not installed; {_INSTALL}.")
    try:
        text = path.read_text(encoding="utf-8")
        if text != unit_text(load(options.config_path or configuration_in(text))):
            say(f"Note: {path} is not what `hermes service install` would write now; run it again.")
    except HermesError:
        say("Note: the configuration has mistakes; `hermes config check` lists them.")
    _hand_over(_program("systemctl"), "--user", "status", "--no-pager", UNIT)


@service.command()
@click.option("-f", "--follow", is_flag=True, help="Follow the log until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Show this many of the newest lines.",
)
def logs(follow: bool, lines: int) -> None:
    """Show the log of the service with journalctl."""
    journalctl = _program("journalctl")
    if not _unit_path().exists():
        raise ServiceFailed(f"it is not installed; {_INSTALL}.")
    following = ["--follow"] if follow else []
    _hand_over(journalctl, "--user", "--unit", UNIT, "--lines", str(lines), "--no-pager", *following)


def _note_missing_variables(loaded: LoadedConfig) -> None:
    """Print a note about variables that this shell has and the service would not."""
    from gateway.config.environment import PROVIDER_KEYS, missing_from_dotenv  # noqa: PLC0415
    from gateway.config.schema_platforms import token_variables  # noqa: PLC0415

    in_file = {name[1:] for origin in loaded.origins.values() for name in origin.split() if name[0] == "$"}
    names = dict.fromkeys((*PROVIDER_KEYS, *token_variables().values(), *sorted(in_file)))
    if missing := missing_from_dotenv(loaded.home, names):
        are, them = ("is", "it") if len(missing) == 1 else ("are", "them")
        say(
            f"Note: {', '.join(missing)} {are} set in this shell only, and the service does not see that; "
            f"add {them} to {loaded.home / '.env'}."
        )


def _unit_path() -> Path:
    from gateway.config.environment import user_unit_directory  # noqa: PLC0415

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


# -- the unit ------------------------------------------------------------------------------------------------

_BAD_CONFIGURATION = 2
"""The exit code after which systemd does not restart Hermes."""
_WATCHDOG_SECONDS = 60
_BEYOND_DRAINING = 30
"""Seconds that platforms, engines and the store get after the answers."""

_SHARED_TMP = ("/tmp", "/var/tmp")  # noqa: S108 - only looked at
"""Folders that `PrivateTmp` hides."""

# A user's service manager has no privileges, and Hermes runs bubblewrap in user namespaces. So three kinds of hardening
# are left out on purpose:
# - settings that remove capabilities (`CapabilityBoundingSet`, `ProtectKernelModules`, `ProtectKernelLogs`,
#   `ProtectClock`, `PrivateDevices`): where the manager may not remove them, the service does not start
#   (218/CAPABILITIES). A user's processes do not have them anyway.
# - settings that break bubblewrap: `RestrictNamespaces`; `ProtectHostname`, because a sandbox sets its own host name;
#   `ProtectKernelTunables`, `ProtectProc` and `ProcSubset`, because a process that sees only parts of /proc cannot
#   mount a new one.
# - `PrivateUsers`: without user namespaces the service would not start. Settings that need a private view of the file
#   system enable it themselves where possible, and are ignored elsewhere.
# `MemoryDenyWriteExecute` would end programs that commands of the agent run, such as node.
_TEMPLATE = """\
# Written by `hermes service install`, which overwrites it. Your own changes go into
# `systemctl --user edit {unit}`.

[Unit]
Description=Hermes, a messaging gateway for LLM agents
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=notify
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
WorkingDirectory={home}
Environment={environment}
Restart=on-failure
RestartSec=5
RestartPreventExitStatus={bad_configuration}
TimeoutStartSec=600
# systemd restarts Hermes if its event loop is blocked for a minute.
WatchdogSec={watchdog_seconds}
TimeoutStopSec={stop_seconds}
# The signal stops only Hermes; commands of the agent end with their turn.
KillMode=mixed

# Hermes may write only to its state directory and {its_tmp}.
ProtectSystem=strict
ReadWritePaths={writable}
{private_tmp}
UMask=0077

# Limits protect the machine. If a command of the agent runs out of memory, only that command is killed.
MemoryMax=4G
TasksMax=1024
LimitNOFILE=65536
OOMPolicy=continue

# Child processes get no additional privileges.
NoNewPrivileges=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
# @mount and sethostname are for bubblewrap, the sandbox of the terminal.
SystemCallFilter=@system-service @mount sethostname
SystemCallErrorNumber=EPERM

[Install]
WantedBy=default.target
"""


def unit_text(loaded: LoadedConfig) -> str:
    """Return the unit for this Python, this state directory and this configuration."""
    # Without -P, Python would import packages from the state directory.
    command = [sys.executable, "-P", "-m", "gateway.cli"]
    command += ["--config", str(loaded.path)] if loaded.path else []
    folders = dict.fromkeys((loaded.home, loaded.database.parent))
    # Not resolved: both a link and its target must exist.
    needed = (*folders, loaded.path, Path(sys.executable), Path(sys.prefix), Path(__file__))
    below_tmp = next((path for path in needed if path and _is_below_tmp(path)), None)
    return _TEMPLATE.format(
        its_tmp=_SHARED_TMP[0] if below_tmp else "a private /tmp",
        private_tmp=_private_tmp(below_tmp),
        unit=UNIT,
        command=" ".join(_in_quotes(word).replace("$", "$$") for word in (*command, "run")),
        home=str(loaded.home).replace("%", "%%"),
        environment=_in_quotes(f"HERMES_HOME={loaded.home}"),
        writable=" ".join(
            _in_quotes(str(each)) for each in (*folders, *_SHARED_TMP[: below_tmp is not None])
        ),
        bad_configuration=_BAD_CONFIGURATION,
        watchdog_seconds=_WATCHDOG_SECONDS,
        stop_seconds=ceil(loaded.config.gateway.drain_seconds) + _BEYOND_DRAINING,
    )


def configuration_in(unit: str) -> Path | None:
    """Return the configuration file that a unit names; None if it uses the defaults."""
    found = re.search(r'"--config" "((?:[^"\\]|\\.)*)"', unit)
    if found is None:
        return None
    plain = found[1].replace("$$", "$").replace("%%", "%")
    return Path(re.sub(r"\\(.)", lambda escaped: "\n" if escaped[1] == "n" else escaped[1], plain))


def _is_below_tmp(path: Path) -> bool:
    spellings = (path.absolute(), path.resolve())
    return any(each.is_relative_to(folder) for each in spellings for folder in _SHARED_TMP)


def _private_tmp(below_tmp: Path | None) -> str:
    if below_tmp is None:
        return "PrivateTmp=yes"
    # One comment line without a continuation.
    path = " ".join(str(below_tmp).split()).replace("\\", "/")
    return f"# No PrivateTmp: it would hide {path}"


def _in_quotes(text: str) -> str:
    """Quote text as one word of a unit file."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    return f'"{plain}"'
