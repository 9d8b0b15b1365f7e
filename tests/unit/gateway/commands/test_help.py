"""`/help` and the registry of commands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agent.store import Address
from gateway.commands import Command, CommandContext, Commands
from gateway.platforms.registry import PlatformRegistry
from tests.support.command_harness import CommandHarness, Person
from tests.support.gateways import COMMANDS

NAMES = """
    branch compress help memory model new reset resume retry search sessions status stop undo undo-compress usage whoami
"""


async def _shut_down(context: CommandContext, rest: str) -> str:
    return "Good night."


DANGEROUS = Command("shutdown", "ends Hermes", _shut_down, for_admins=True)


async def test_every_command_has_its_line_in_a_group(harness: CommandHarness) -> None:
    """Each line shows the argument; no built-in command is in the group of the plugins."""
    told = await harness.say("/help")
    assert [command.name for command in COMMANDS.menu] == NAMES.split()
    for command in COMMANDS.all:
        assert f"\n/{command.name}" in told
        assert command.summary in told
    assert "\n/reset, /new: begin" in told
    assert "\n/search [words]: find" in told
    assert [line for line in told.splitlines() if line and not line.startswith("/")] == [
        "While we talk:",
        "Earlier conversations:",
        "The context:",
        "You and Hermes:",
    ]


def test_commands_fit_the_menus_of_the_chat_services() -> None:
    """Discord allows 100 characters of summary and one plain word as the name of an argument."""
    for command in COMMANDS.menu:
        assert len(command.summary) <= 100, command.name
        assert command.argument == "" or (command.argument.isalpha() and command.argument.islower())


async def test_commands_for_admins_are_hidden_from_others(harness: CommandHarness) -> None:
    """The command is refused, too."""
    harness.gateway.commands = Commands([*COMMANDS.all, DANGEROUS])
    admin = Person(person="telegram:1", author="telegram:1", is_admin=True)
    guest = replace(admin, is_admin=False)
    assert "More:\n/shutdown: ends Hermes (admins only)" in await harness.say("/help", admin)
    assert "shutdown" not in await harness.say("/help", guest)
    assert await harness.say("/shutdown", guest) == "Only an admin may use /shutdown."
    assert await harness.say("/shutdown", admin) == "Good night."


async def test_platforms_choose_the_hyphen_of_commands(harness: CommandHarness) -> None:
    """A tap on /undo-compress in Telegram would send /undo."""
    harness.gateway.commands = Commands(COMMANDS.all, PlatformRegistry().command_hyphens)
    work = Person(address=Address("telegram/work", "1"), person="telegram:1", author="telegram:1")
    assert "\n/undo_compress" in await harness.say("/help", work)
    assert "\n/undo-compress" in await harness.say("/help")


def test_each_command_is_documented() -> None:
    page = (Path(__file__).parents[4] / "docs" / "commands.md").read_text()
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert [name for name in NAMES.split() if not any(f"`/{name}" in line for line in headings)] == []
