"""What becomes of messages: they wait in order, belong together, refer to others, are changed, end an answer."""

from __future__ import annotations

from agent.untrusted import without_marks
from tests.contract.platforms.sample_files import picture
from tests.contract.platforms.scripted_model import Model, heard, images, newest
from tests.contract.platforms.surface import CONTRACT, ChatSurface, Surface, on
from tests.fakes.script import Reply

pytestmark = CONTRACT


@on()
async def test_what_comes_meanwhile_waits(surface: Surface, model: Model) -> None:
    """A second message is acknowledged at once and answered after the first."""
    ada = await surface.person()
    model.answers("first thing", Reply("The first is done.", hold=True))
    model.answers("second thing", "The second is done.")
    await ada.says("the first thing")
    await model.holds()
    await ada.says("the second thing")
    await ada.sees(ada.waiting)
    assert not model.requests("second thing")
    model.release()
    await ada.is_answered("The second is done.")
    everything = "\n".join(ada.visible())
    assert everything.index("The first is done.") < everything.index("The second is done.")
    assert heard(model.requests("second thing")[0])[-2:] == ["the first thing", "the second thing"]
    if surface.name != "terminal":  # what was printed stays
        await ada.no_longer_sees(ada.waiting)


@on()
async def test_stop_ends_an_answer_at_once(surface: Surface, model: Model) -> None:
    """The stream is cancelled, the partial text stays, and the next message is answered."""
    ada = await surface.person()
    model.answers("long story", Reply("It was a dark and stormy night, and then", hold=True, after=8))
    await ada.says("a long story")
    await ada.sees("It was a dark and stormy night")
    before = model.disconnects
    await ada.says("/stop")
    await ada.sees("Stopped.")
    await model.disconnected(before + 1)
    await ada.asks("something else")
    assert ada.count("It was a dark and stormy night") == 1
    assert ada.count("Stopped.") == 1


@on("limits")
async def test_a_paste_in_parts_is_one_message(surface: ChatSurface, model: Model) -> None:
    """A client cuts a text that is too long; the model gets it whole, once."""
    ada = await surface.person()
    lines = [
        f"line {number:04} of a long letter that somebody has pasted" for number in range(surface.limit // 20)
    ]
    await ada.pastes("\n".join(lines))
    asked = await model.asked("line 0000")
    assert [line for line in newest(asked).splitlines() if line] == lines
    await ada.asks("was that all?")
    assert len(heard(model.requests("was that all?")[0])) == 2


@on("files")
async def test_an_album_is_one_message(surface: Surface, model: Model) -> None:
    """Several pictures sent at once are one question."""
    ada = await surface.person()
    model.answers("compare", "The second is larger.")
    await ada.sends(picture("a.png", 20), picture("b.png", 40), text="compare these")
    await ada.is_answered("The second is larger.")
    (asked,) = model.requests()
    assert len(images(asked)) == 2


@on("replies")
async def test_what_a_message_replies_to(surface: Surface, model: Model) -> None:
    """The model gets the quoted text, marked as a quote with its author."""
    ada = await surface.person()
    model.answers("two animals", "The heron and the otter.")
    await ada.says("name two animals")
    animals = await ada.is_answered("The heron and the otter.")
    await ada.asks("and the weather?")
    await ada.says("which is larger?", reply_to=animals)
    asked = await model.asked("which is larger?")
    assert without_marks(newest(asked)).lower().split("\n") == [
        "[in reply to hermes:]",
        "the heron and the otter.",
        "which is larger?",
    ]


@on("edits")
async def test_a_message_is_changed_while_it_waits(surface: Surface, model: Model) -> None:
    """Only its last form is answered."""
    ada = await surface.person()
    model.answers("first thing", Reply("The first is done.", hold=True))
    await ada.says("the first thing")
    await model.holds()
    second = await ada.says("a ticket to Rome")
    await ada.sees(ada.waiting)
    await ada.edits(second, "a ticket to Oslo")
    # Asked in between, because both travel the same way: when this is acknowledged, so is the change.
    await ada.says("/status")
    await ada.is_answered("Session:")
    model.release()
    await ada.is_answered("a ticket to Oslo")
    assert not model.was_told("Rome")


@on("edits")
async def test_a_message_is_changed_after_its_answer(surface: Surface, model: Model) -> None:
    """It is not answered twice; the model learns of the change with the next message."""
    ada = await surface.person()
    said = await ada.says("my colour is red")
    await ada.is_answered("my colour is red")
    await ada.edits(said, "my colour is blue")
    await ada.asks("what is my colour?")
    asked = model.requests()
    assert [newest(each).endswith("what is my colour?") for each in asked] == [False, True]
    assert "my colour is blue" in newest(asked[1])
    assert "my colour is blue" not in str(heard(asked[1])[:-1])
