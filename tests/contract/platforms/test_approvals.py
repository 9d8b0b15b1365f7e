"""Before a dangerous tool runs, the person it works for is asked."""

from __future__ import annotations

from tests.contract.platforms.scripted_model import Model, tool_results
from tests.contract.platforms.surface import CONTRACT, ChatSurface, Surface, on
from tests.fakes.script import Call, Reply

pytestmark = CONTRACT

COMMAND = "echo six times seven is $((6*7))"
WANTED = Reply(tool_calls=[Call("terminal", {"command": COMMAND})])
OVER = "This request is no longer open."


@on("approvals")
async def test_what_is_allowed_runs(surface: Surface, model: Model) -> None:
    """The question shows the exact command; nothing runs before it is answered."""
    ada = await surface.person()
    model.answers("do the sum", WANTED, "It is 42.")
    await ada.says("do the sum")
    asked = await ada.is_asked()
    assert COMMAND in asked.text
    assert len(model.requests("do the sum")) == 1
    await ada.presses(asked, "Once")
    await ada.is_answered("It is 42.")
    (result,) = tool_results(model.requests("do the sum")[1])
    assert "six times seven is 42" in result


@on("approvals")
async def test_what_is_denied_does_not_run(surface: Surface, model: Model) -> None:
    """The model is told that the person does not want it."""
    ada = await surface.person()
    model.answers("do the sum", WANTED, "Then not.")
    await ada.says("do the sum")
    await ada.presses(await ada.is_asked(), "Deny")
    await ada.is_answered("Then not.")
    (result,) = tool_results(model.requests("do the sum")[1])
    assert "did not allow" in result
    assert "42" not in result


@on("approvals")
async def test_what_is_allowed_in_this_conversation_is_not_asked_again(
    surface: Surface, model: Model
) -> None:
    """The same command runs at once; another one is asked about."""
    ada = await surface.person()
    other = Reply(tool_calls=[Call("terminal", {"command": "echo something else"})])
    model.answers("do the sum", WANTED, WANTED, other, "Done.")
    await ada.says("do the sum")
    await ada.presses(await ada.is_asked(), "This conversation")
    await model.asked("do the sum", 3)
    asked = await ada.is_asked()
    assert "something else" in asked.text
    await ada.presses(asked, "Deny")
    await ada.is_answered("Done.")


@on("approvals", "groups")
async def test_only_who_was_asked_decides(surface: ChatSurface, model: Model) -> None:
    """Another member and a stranger are refused and it stays open; it is answered once."""
    ada, bob = surface.group("Ada", "Bob")
    model.answers("do the sum", WANTED, "It is 42.")
    await ada.says("do the sum")
    asked = await ada.is_asked()
    assert "Only the person who was asked" in await bob.presses(asked, "Once")
    assert await ada.is_asked()
    assert len(model.requests("do the sum")) == 1
    assert await ada.presses(asked, "Once") == "Approved once."
    await ada.is_answered("It is 42.")
    assert await ada.presses(asked, "Once") == OVER
    assert not any(shown.buttons for shown in ada.messages())


@on("approvals")
async def test_who_stops_the_answer_need_not_decide(surface: Surface, model: Model) -> None:
    """With the turn its question ends, and nothing has run."""
    ada = await surface.person()
    model.answers(
        "do the sum", Reply(tool_calls=[Call("terminal", {"command": "echo $((6*7)) and no more"})])
    )
    await ada.says("do the sum")
    await ada.is_asked()
    await ada.says("/stop")
    await ada.sees("Stopped.")
    await ada.until(lambda: not any(shown.buttons for shown in ada.messages()))
    await ada.asks("something else")
    assert not any("42" in result for result in tool_results(model.requests("something else")[0]))


@on("approvals", "strangers")
async def test_a_stranger_presses(surface: ChatSurface, model: Model) -> None:
    """A forged or copied button does nothing for a person without access."""
    ada, mallory = await surface.person(), surface.stranger()
    model.answers("do the sum", WANTED, "Then not.")
    await ada.says("do the sum")
    asked = await ada.is_asked()
    assert await mallory.presses(asked, "Once") == "You may not decide this."
    assert (await ada.presses(asked, "Deny")).startswith("Denied")
    await ada.is_answered("Then not.")
