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


def _menu(world: FakeTelegram, **scope: object) -> list[dict[str, str]]:
    return world.bot.commands[(scope_key(scope), "")]


async def test_everybody_is_shown_the_commands(world: FakeTelegram) -> None:
    """In direct chats and groups, spelled as Telegram allows, without those of admins."""
    async with running(world):
        await world.wait_for(lambda: len(world.bot.commands) == EVERYWHERE)
        assert [_menu(world, type=scope) for scope in SCOPES] == [EVERYBODY] * EVERYWHERE


async def test_nothing_is_set_that_is_right_already(world: FakeTelegram) -> None:
    """The second start only looks."""
    async with running(world):
        await world.called("setMyCommands", EVERYWHERE)
    async with running(world):
        await world.called("getMyCommands", 2 * EVERYWHERE)
    assert len(world.calls_of("setMyCommands")) == EVERYWHERE


async def test_what_has_changed_is_set_anew(world: FakeTelegram) -> None:
    """A command is gone after an upgrade."""
    async with running(world):
        await world.called("setMyCommands", EVERYWHERE)
    async with running(world, commands=COMMANDS[1:]):
        await world.called("setMyCommands", 2 * EVERYWHERE)
        await world.wait_for(lambda: all(_menu(world, type=scope) == EVERYBODY[1:] for scope in SCOPES))


async def test_admins_are_shown_theirs(world: FakeTelegram) -> None:
    """In their own chat; one who never wrote to the bot is left out."""
    admin = world.person(first_name="Root")
    await admin.says("hello")
    async with running(world, settings=settings_for(world, admins=[admin.id, 99])):
        await world.called("getMyCommands", EVERYWHERE + 2)
        await world.wait_for(lambda: len(world.bot.commands) == EVERYWHERE + 1)
        commands = [one["command"] for one in _menu(world, type="chat", chat_id=admin.id)]
        assert commands == ["compress", "status", "undo_compress", "model"]


async def test_a_menu_that_cannot_be_set_stops_nothing(world: FakeTelegram) -> None:
    """The bot works without, and the other lists are set."""
    world.fail_next("setMyCommands", Fault.error(500, "Internal Server Error"))
    async with running(world) as harness:
        await world.called("setMyCommands", EVERYWHERE)
        assert (await harness.says("hello")).text == "hello"
        assert harness.platform.health.state == "up"
