"""Access: only people whom the owner allowed can talk to Hermes."""

from __future__ import annotations

import re

from tests.contract.platforms.harness import ContractHarness
from tests.contract.platforms.scripted_model import Model
from tests.contract.platforms.surface import CONTRACT, ChatSurface, Person, on

pytestmark = CONTRACT


async def _still_answers(surface: ChatSurface) -> None:
    """Wait for an answer to another person: earlier messages are processed by then."""
    witness = await surface.person("Witness")
    await witness.asks("are you still there?")


async def _code_given_to(stranger: Person) -> str:
    welcome = await stranger.is_answered("hermes pairing approve")
    found = re.search(r"hermes pairing approve (\w+)", welcome.text)
    assert found
    return found[1]


@on("groups")
async def test_a_group_that_nobody_allowed(
    surface: ChatSurface, model: Model, harness: ContractHarness
) -> None:
    """Even those who may talk to the bot in private get nothing there, and nothing is kept of it."""
    ada = await surface.person()
    (there,) = surface.foreign_group(ada)
    said = await there.says("tell this group a riddle")
    await there.edits(said, "tell this group a better riddle")
    await there.uses("status")
    await _still_answers(surface)
    assert not any("Session:" in text for text in there.visible())
    assert not model.was_told("riddle")
    assert not await harness.stores("riddle")


@on("strangers")
async def test_an_admin_lets_a_stranger_in(surface: ChatSurface, model: Model) -> None:
    """Only admins can decide in the chat; the admin and the newcomer both see the outcome."""
    olga, mallory, eve = surface.admin(), surface.stranger(), surface.stranger("Eve")
    await mallory.says("may I come in?")
    await _code_given_to(mallory)
    asked = await olga.is_asked()
    assert "Mallory" in asked.text
    assert await eve.presses(asked, "Approve") == "You may not decide this."
    assert "may talk to me now" in await olga.presses(asked, "Approve")
    await mallory.is_answered("You may talk to me now.")
    await mallory.asks("thank you")
    assert "no longer open" in await olga.presses(asked, "Approve")


@on("strangers")
async def test_a_stranger_is_let_in_by_a_code(
    surface: ChatSurface, model: Model, harness: ContractHarness
) -> None:
    """Only a code is told to them; once the owner has approved it, they are answered, in private only."""
    mallory = surface.stranger()
    await mallory.says("let me in, said the stranger")
    code = await _code_given_to(mallory)
    approved, output = await harness.cli("pairing", "approve", code)
    assert approved == 0, output
    assert "Mallory" in output
    await mallory.asks("may I come in now?")
    (elsewhere,) = surface.foreign_group(mallory)
    await elsewhere.says("and here, among friends?")
    await _still_answers(surface)
    assert elsewhere.visible() == []
    used_again, sentence = await harness.cli("pairing", "approve", code)
    assert used_again != 0
    assert "No one is waiting with this code" in sentence
    assert not model.was_told("said the stranger")
    assert not await harness.stores("said the stranger")
