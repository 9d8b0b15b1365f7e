"""The list of commands behind the `/` button."""

from __future__ import annotations

from tests.fakes.telegram.account import scope_key
from tests.fakes.telegram.server import FakeTelegram, Fault
from tests.support.telegram_harness import COMMANDS, running, settings_for

EVERYBODY = [
    {"command": "compress", "description": "[focus] make room"},
    {"command": "status", "description": "how things are"},
    {"command": "undo_compress", "description": "take it back"},
]
SCOPES = ("default", "all_private_chats", "all_group_chats")
EVERYWHERE = len(SCOPES)


def _menu(server: FakeTelegram, **scope: object) -> list[dict[str, str]]:
    return server.bot.commands[(scope_key(scope), "")]


async def test_everybody_is_shown_the_commands(server: FakeTelegram) -> None:
    """In direct chats and groups, spelled as Telegram allows, without those of admins."""
    async with running(server):
        await server.wait_for(lambda: len(server.bot.commands) == EVERYWHERE)
        assert [_menu(server, type=scope) for scope in SCOPES] == [EVERYBODY] * EVERYWHERE


async def test_nothing_is_set_that_is_right_already(server: FakeTelegram) -> None:
    """The second start only looks."""
    async with running(server):
        await server.called("setMyCommands", EVERYWHERE)
    async with running(server):
        await server.called("getMyCommands", 2 * EVERYWHERE)
    assert len(server.calls_of("setMyCommands")) == EVERYWHERE


async def test_what_has_changed_is_set_anew(server: FakeTelegram) -> None:
    """A command is gone after an upgrade."""
    async with running(server):
        await server.called("setMyCommands", EVERYWHERE)
    async with running(server, commands=COMMANDS[1:]):
        await server.called("setMyCommands", 2 * EVERYWHERE)
        await server.wait_for(lambda: all(_menu(server, type=scope) == EVERYBODY[1:] for scope in SCOPES))


async def test_admins_are_shown_theirs(server: FakeTelegram) -> None:
    """In their own chat; one who never wrote to the bot is left out."""
    admin = server.person(first_name="Root")
    await admin.says("hello")
    async with running(server, settings=settings_for(server, admins=[admin.id, 99])):
        await server.called("getMyCommands", EVERYWHERE + 2)
        await server.wait_for(lambda: len(server.bot.commands) == EVERYWHERE + 1)
        commands = [one["command"] for one in _menu(server, type="chat", chat_id=admin.id)]
        assert commands == ["compress", "status", "undo_compress", "model"]


async def test_a_menu_that_cannot_be_set_stops_nothing(server: FakeTelegram) -> None:
    """The bot works without, and the other lists are set."""
    server.fail_next("setMyCommands", Fault.error(500, "Internal Server Error"))
    async with running(server) as harness:
        await server.called("setMyCommands", EVERYWHERE)
        assert (await harness.says("hello")).text == "hello"
        assert harness.platform.health.state == "up"
