"""`hermes pairing`: admits people to the bots. A change takes effect at once, also in a running Hermes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

import click

from gateway.cli import Options, loaded_for
from gateway.cli.output import console, local_time, one_line, print_json, print_rows

if TYPE_CHECKING:
    from gateway.access.pairing import Pairing
    from gateway.config.loader import LoadedConfig
    from gateway.store.access import Paired, PairingRequest

T = TypeVar("T")

_APPROVED_BY = "command line"
_NAME_WIDTH = 60
_UNKNOWN_CODE = (
    "No one is waiting with this code: it is mistyped, older than an hour, or already used. "
    "A person who writes to the bot again gets a new one; `hermes pairing list` shows who is waiting."
)

code_words = click.argument("code", nargs=-1, required=True, metavar="CODE")
as_json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def pairing() -> None:
    """Let people talk to your bots, and take that back.

    An unknown person who writes to a bot gets a code and sends it to you. Approve it here, while Hermes runs or not.
    That opens the direct chat with this bot, and no group.
    """


@pairing.command("list")
@as_json_flag
@click.pass_obj
def list_requests(options: Options, as_json: bool) -> None:
    """List the people who are waiting. Only they know their codes."""
    waiting = _ask(options, lambda pairing: pairing.pending()) or []
    if as_json:
        print_json([asdict(request) for request in waiting])
    elif waiting:
        columns = ("PLATFORM", "ID", "ASKED", "EXPIRES", "NAME")
        print_rows(console(), columns, [_request_row(request) for request in waiting])
    else:
        click.echo("No one is waiting.", err=True)


@pairing.command("people")
@as_json_flag
@click.pass_obj
def list_people(options: Options, as_json: bool) -> None:
    """List the people who were approved. Those named in hermes.yaml are not listed."""
    people = _ask(options, lambda pairing: pairing.approved()) or []
    if as_json:
        print_json([asdict(paired) for paired in people])
    elif people:
        columns = ("PLATFORM", "ID", "APPROVED", "BY", "NAME")
        print_rows(console(), columns, [_paired_row(paired) for paired in people])
    else:
        click.echo("No one was approved yet.", err=True)


@pairing.command()
@code_words
@click.pass_obj
def approve(options: Options, code: tuple[str, ...]) -> None:
    """Let the person with this CODE talk to the bot in a direct chat.

    Upper and lower case, spaces and dashes do not matter.
    """
    paired = _change(options, lambda pairing: pairing.approve("".join(code), by=_APPROVED_BY))
    if paired is None:
        raise click.ClickException(_UNKNOWN_CODE)
    click.echo(_approved(paired))


@pairing.command()
@code_words
@click.pass_obj
def deny(options: Options, code: tuple[str, ...]) -> None:
    """Invalidate this CODE."""
    if not _change(options, lambda pairing: pairing.deny("".join(code))):
        raise click.ClickException(_UNKNOWN_CODE)
    click.echo("The code is invalid now.")


@pairing.command()
@click.argument("platform")
@click.argument("user_id", metavar="ID")
@click.pass_obj
def revoke(options: Options, platform: str, user_id: str) -> None:
    """Revoke the approval of the person with this ID on this PLATFORM.

    PLATFORM and ID are as `hermes pairing people` shows them: telegram, or telegram/work for a bot with a name.
    """
    if not _change(options, lambda pairing: pairing.revoke(platform, user_id)):
        raise click.ClickException(
            f"{user_id} was not approved on {platform}; `hermes pairing people` shows the ids of those who were."
        )
    click.echo(f"{user_id} is a stranger on {platform} again.")
    if user_id in _configured_users(_loaded(options), platform):
        click.echo(f"But hermes.yaml still admits {user_id}; remove it from allowed_users and admins there.")


def _approved(paired: Paired) -> str:
    from gateway.config.schema_platforms import section_key  # noqa: PLC0415 - not for `--help`

    bot, user_id = paired.platform, paired.user_id
    return (
        f"{one_line(paired.name, _NAME_WIDTH)} ({bot} {user_id}) may talk to the bot now. "
        f"`hermes pairing revoke {bot} {user_id}` takes that back.\n"
        f"To let this person approve others and change the model, add {user_id} to `{section_key(bot)}.admins` in "
        "hermes.yaml."
    )


def _request_row(request: PairingRequest) -> list[str]:
    times = local_time(request.asked_at), local_time(request.expires_at)
    return [request.platform, request.user_id, *times, one_line(request.name, _NAME_WIDTH)]


def _paired_row(paired: Paired) -> list[str]:
    approved = local_time(paired.approved_at), paired.approved_by
    return [paired.platform, paired.user_id, *approved, one_line(paired.name, _NAME_WIDTH)]


def _ask(options: Options, question: Callable[[Pairing], Awaitable[T]]) -> T | None:
    return _with_pairing(options, question, read_only=True)


def _change(options: Options, action: Callable[[Pairing], Awaitable[T]]) -> T | None:
    """Write beside a Hermes that may be running: SQLite serialises writers, and nothing here is cached."""
    return _with_pairing(options, action, read_only=False)


def _with_pairing(options: Options, work: Callable[[Pairing], Awaitable[T]], *, read_only: bool) -> T | None:
    """Run `work`; None where no database exists yet, because this creates none."""
    from gateway.access.pairing import Pairing  # noqa: PLC0415 - not for `--help`
    from gateway.store import open_store  # noqa: PLC0415

    loaded = _loaded(options)
    if not loaded.database.exists():
        return None

    async def do() -> T:
        async with open_store(loaded, read_only=read_only) as store:
            return await work(Pairing(store.access))

    return asyncio.run(do())


def _loaded(options: Options) -> LoadedConfig:
    from gateway.observability.logs import configure_logging  # noqa: PLC0415

    configure_logging("error", "human")  # standard output is for the result
    return loaded_for(options)


def _configured_users(loaded: LoadedConfig, platform: str) -> set[str]:
    """Return the users that hermes.yaml names for a bot. The section of a plugin's platform is read unchecked."""
    from gateway.config.schema_platforms import bot_configs  # noqa: PLC0415 - not for `--help`

    platforms = loaded.config.platforms
    if config := dict(bot_configs(platforms)).get(platform):
        return {*config.allowed_users, *config.admins}
    section = getattr(platforms, platform, None)
    if not isinstance(section, dict):
        return set()
    lists = (section.get(key) for key in ("allowed_users", "admins"))
    return {str(user) for users in lists if isinstance(users, list) for user in users}
