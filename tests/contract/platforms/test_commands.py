"""Slash commands: answered by Hermes itself, the same everywhere, typed or picked from the service's own menu."""

from __future__ import annotations

import pytest

from tests.contract.platforms.scripted_model import Model
from tests.contract.platforms.surface import CONTRACT, ChatSurface, Person, Surface, on

pytestmark = CONTRACT

MENU = {
    "branch", "compress", "help", "memory", "model", "reset", "resume", "retry", "search", "sessions", "status", "stop",
    "undo", "usage", "whoami",
}  # fmt: skip
IN_ORDER = (
    ("help", "", "/compress"),
    ("status", "", "ancestor"),
    ("whoami", "", "Platform: "),
    ("usage", "", "tokens in"),
    ("model", "", "answers in this conversation"),
    ("memory", "", "Nothing is remembered."),
    ("stop", "", "Nothing is running."),
    ("search", "lighthouse", "in this session"),
    ("compress", "billing", "ompress"),
    ("branch", "idea", "You are in a branch now, “idea”"),
    ("sessions", "", "idea ← you are here"),
    ("undo", "", "Taken out: “where is the lighthouse?”"),
    ("resume", "idea", "Back in the session"),
    ("retry", "", "Once more: “where is the lighthouse?”"),
    ("reset", "", "A new session begins."),
    ("new", "", "A new session begins."),
)
"""Commands of one conversation: name, arguments, and words of the answer."""


async def _goes_through_all(person: Person, model: Model, *, typed: bool) -> None:
    await person.asks("where is the lighthouse?")
    for command, argument, words in IN_ORDER:
        before = person.count(words)
        if typed:
            await person.says(f"/{command} {argument}".rstrip())
        else:
            await person.uses(command, argument)
        await person.until(lambda: person.count(words) > before)  # noqa: B023 - awaited at once
    asked = model.requests("where is the lighthouse?")
    assert len(asked) == 2, "once by the person, once more by /retry, and no command reached the model"


@on()
async def test_typed_commands(surface: Surface, model: Model) -> None:
    """Every command is answered where it was typed, and none reaches the model."""
    await _goes_through_all(await surface.person(), model, typed=True)


@on("menu")
async def test_native_commands(surface: Surface, model: Model) -> None:
    """`/command@bot` on Telegram, an interaction that is acknowledged in time on Discord."""
    await _goes_through_all(await surface.person(), model, typed=False)


@on()
async def test_a_command_that_does_not_exist(surface: Surface, model: Model) -> None:
    """The nearest one is named."""
    ada = await surface.person()
    await ada.says("/stauts")
    await ada.is_answered("There is no /stauts. Did you mean /status?")
    assert not model.requests()


@on("menu")
async def test_the_service_knows_the_commands(surface: ChatSurface) -> None:
    """The platform offers the commands when a person types a slash."""
    assert surface.menu() >= MENU


@on("groups")
async def test_a_command_in_a_group(surface: ChatSurface, model: Model) -> None:
    """One that is ours needs no name before it."""
    ada, bob = surface.group("Ada", "Bob")
    await ada.says("/whoami", to_bot=False)
    await bob.is_answered("You are not an admin.")
    await bob.uses("usage")
    await ada.is_answered("tokens in")


@on("groups")
@pytest.mark.parametrize("command", ["/play", "/status@another_bot"])
async def test_commands_for_other_bots(surface: ChatSurface, model: Model, command: str) -> None:
    """In a group, a command that is another bot's is left to it."""
    ada, bob = surface.group("Ada", "Bob")
    await ada.says(command, to_bot=False)
    await bob.asks("are you there?")
    assert len(bob.visible()) == 1
