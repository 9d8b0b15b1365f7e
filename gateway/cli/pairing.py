"""`hermes pairing`: admits people to the bots. A change takes effect at once, also in a running Hermes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

import click

from gateway.cli import Options, load_config
from gateway.cli.output import as_json_flag, console, local_time, one_line, print_json, print_rows
from gateway.cli.store_access import read_store

if TYPE_CHECKING:
    from gateway.access import Pairing
    from gateway.config.loader import LoadedConfig
    from gateway.store.access import Paired

T = TypeVar("T")

_APPROVED_BY = "command line"
_UNKNOWN_CODE = (
    "No one is waiting with this code: it is mistyped, older than an hour, or already used. "
    "A person who writes to the bot again gets a new one; `hermes pairing list` shows who is waiting."
)

code_words = click.argument("code", nargs=-1, required=True, metavar="CODE")


@click.group()
def pairing() -> None:
    """Allow people to talk to your bots, or revoke it.

    A person whom a bot does not know gets a code from it and sends you the code. Approve the code here, while Hermes
    runs or not. The person may then talk to this bot in a direct chat, but not in groups.
    """


@pairing.command("list")
@as_json_flag
@click.pass_obj
def list_requests(options: Options, as_json: bool) -> None:
    """List the people who are waiting. Only they know their codes."""
    waiting = _list(options, lambda pairing: pairing.pending())
    if as_json:
        print_json([asdict(request) for request in waiting])
    elif waiting:
        rows = [
            [
                each.platform,
                each.user_id,
                local_time(each.asked_at),
                local_time(each.expires_at),
                _name(each.name),
            ]
            for each in waiting
        ]
        print_rows(console(), ("PLATFORM", "ID", "ASKED", "EXPIRES", "NAME"), rows)
    else:
        click.echo("No one is waiting.", err=True)


@pairing.command("people")
@as_json_flag
@click.pass_obj
def list_people(options: Options, as_json: bool) -> None:
    """List the people who were approved, without those whom hermes.yaml allows."""
    people = _list(options, lambda pairing: pairing.approved())
    if as_json:
        print_json([asdict(paired) for paired in people])
    elif people:
        rows = [
            [each.platform, each.user_id, local_time(each.approved_at), each.approved_by, _name(each.name)]
            for each in people
        ]
        print_rows(console(), ("PLATFORM", "ID", "APPROVED", "BY", "NAME"), rows)
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
    click.echo(f"{user_id} may no longer talk to the bot on {platform}.")
    if user_id in _configured_users(load_config(options), platform):
        click.echo(f"But hermes.yaml still admits {user_id}; remove it from allowed_users and admins there.")


def _approved(paired: Paired) -> str:
    from gateway.config.schema_platforms import section_key  # noqa: PLC0415 - not for `--help`; so below

    bot, user_id = paired.platform, paired.user_id
    return (
        f"{_name(paired.name)} ({bot} {user_id}) may talk to the bot now. "
        f"`hermes pairing revoke {bot} {user_id}` takes that back.\n"
        f"To let this person approve others and change the model, add {user_id} to `{section_key(bot)}.admins` in "
        "hermes.yaml."
    )


def _name(name: str) -> str:
    return one_line(name, 60)


def _list(options: Options, question: Callable[[Pairing], Awaitable[list[T]]]) -> list[T]:
    from gateway.access import Pairing  # noqa: PLC0415

    return read_store(options, lambda store: question(Pairing(store.access)))


def _change(options: Options, action: Callable[[Pairing], Awaitable[T]]) -> T | None:
    """Write beside a Hermes that may be running: SQLite serialises writers, and nothing here is cached.

    Returns None if there is no database yet, and creates none.
    """
    from gateway.access import Pairing  # noqa: PLC0415
    from gateway.store import open_store  # noqa: PLC0415

    loaded = load_config(options, log_level="error")
    if not loaded.has_store():
        return None

    async def act() -> T:
        async with open_store(loaded) as store:
            return await action(Pairing(store.access))

    return asyncio.run(act())


def _configured_users(loaded: LoadedConfig, platform: str) -> set[str]:
    """Return the users that hermes.yaml names for a bot. The section of a plugin's platform is read unchecked."""
    from gateway.config.schema_platforms import bot_configs  # noqa: PLC0415

    platforms = loaded.config.platforms
    if config := dict(bot_configs(platforms)).get(platform):
        return {*config.allowed_users, *config.admins}
    section = getattr(platforms, platform, None)
    if not isinstance(section, dict):
        return set()
    lists = (section.get(key) for key in ("allowed_users", "admins"))
    return {str(user) for users in lists if isinstance(users, list) for user in users}
