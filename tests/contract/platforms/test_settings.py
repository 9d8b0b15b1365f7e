"""A Hermes that was set up differently: messages steer, groups are split per person, strangers hear nothing."""

from __future__ import annotations

import pytest

from tests.contract.platforms.harness import ContractHarness, Settings
from tests.contract.platforms.scripted_model import Model, heard, newest, tool_results
from tests.contract.platforms.surface import CONTRACT, ChatSurface, File, Surface, on
from tests.fakes.script import Call, Reply

pytestmark = CONTRACT


@pytest.fixture
def settings() -> Settings:
    return "other"


@on()
async def test_what_comes_meanwhile_steers(surface: Surface, model: Model) -> None:
    """`gateway.busy: steer`: the model gets the second message in the same turn, at its next step."""
    ada = await surface.person()
    note = Call("write_file", {"path": "plan.txt", "content": "coffee"})
    model.answers("make a plan", Reply(tool_calls=[note], hold=True))
    model.answers("with tea", "Made, with tea.")
    await ada.says("make a plan")
    await model.holds()
    await ada.says("with tea, please")
    await ada.sees(ada.steering)
    model.release()
    await ada.is_answered("Made, with tea.")
    first, second = model.requests()
    assert heard(second)[-2:] == ["make a plan", "with tea, please"]
    assert len(tool_results(second)) == len(tool_results(first)) + 1
    await ada.asks("anything else?")
    assert len(model.requests()) == 3


@on("groups")
async def test_groups_per_person(surface: ChatSurface, model: Model) -> None:
    """`groups: per_person`: what one member was told is not known in the conversation of another."""
    ada, bob = surface.group("Ada", "Bob")
    await ada.asks("my locker is number 17")
    await bob.asks("what do you know about me?")
    assert not any("17" in text for text in heard(model.requests("what do you know")[0]))
    await ada.asks("and about me?")
    assert any("number 17" in text for text in heard(model.requests("and about me?")[0]))


@on("groups")
async def test_only_allowed_members(surface: ChatSurface, model: Model, harness: ContractHarness) -> None:
    """`group_members: allowed_users`: others in the group are neither answered nor overheard."""
    (ada,) = surface.group("Ada")
    mallory = surface.joins(surface.stranger(), ada)
    await mallory.says("mind the heron", to_bot=False)
    await mallory.says("is there a heron?")
    await ada.asks("is it quiet here?")
    assert len(ada.visible()) == 1
    assert not model.was_told("heron")
    assert not await harness.stores("heron?")


@on("files")
async def test_a_voice_message_is_heard(surface: Surface, model: Model, harness: ContractHarness) -> None:
    """`auxiliary.transcription.model`: the speech reaches the model, marked as transcribed automatically."""
    ada = await surface.person()
    recording = b"OggS" + bytes(200)
    harness.ears.text = "Is the ferry late?"
    await ada.sends(File("voice.ogg", recording, "voice"))
    await ada.is_answered("Is the ferry late?")
    assert "transcribed automatically" in newest(model.requests()[0])
    assert harness.ears.heard[-1][1] == recording


@on("strangers")
async def test_strangers_hear_nothing(surface: ChatSurface, model: Model, harness: ContractHarness) -> None:
    """`pairing: false`: messages, changed messages and commands of a stranger are as if they had not been."""
    mallory = surface.stranger()
    said = await mallory.says("open the sesame")
    await mallory.edits(said, "open the sesame, please")
    await mallory.uses("status")
    ada = await surface.person()
    await ada.asks("are you there?")
    assert [text for text in mallory.visible() if text != "/status"] == []
    assert not model.was_told("sesame")
    assert not await harness.stores("sesame")
