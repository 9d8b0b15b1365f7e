"""Dangerous tools ask first: bound to person, conversation and exact command, expiring, single-use."""

from __future__ import annotations

import asyncio
import json

import pytest

from agent.events import ApprovalAsked, ApprovalSettled, TurnEvent
from agent.tool import ApprovalRequest
from gateway.core.approvals import Approvals

ANNA, BOB = "telegram:1", "telegram:2"
LIST = ApprovalRequest("terminal", json.dumps({"command": "ls"}))
REMOVE = ApprovalRequest("terminal", json.dumps({"command": "rm -r x"}))


class Chat:
    """Approvals, and what was published about them."""

    def __init__(self, seconds: float = 60.0) -> None:
        self.told: list[tuple[str, TurnEvent]] = []
        self.asked = asyncio.Event()
        self.approvals = Approvals(self._publish, seconds=seconds)

    def _publish(self, conversation_id: str, event: TurnEvent) -> None:
        self.told.append((conversation_id, event))
        if isinstance(event, ApprovalAsked):
            self.asked.set()

    async def ask(
        self, request: ApprovalRequest, person: str = ANNA, where: str = "c1"
    ) -> tuple[asyncio.Task[str], str]:
        """A request that waits, and its id."""
        self.asked.clear()
        waiting = asyncio.ensure_future(self.approvals.approver(where, person)(request))
        await asyncio.wait_for(self.asked.wait(), 5)
        (_, event) = self.told[-1]
        assert isinstance(event, ApprovalAsked)
        return waiting, event.approval_id

    def press(self, approval_id: str, choice: str, person: str = ANNA, where: str = "c1") -> str:
        return self.approvals.decide(approval_id, choice, person=person, conversation_id=where)


async def test_once_is_once() -> None:
    """The same command is asked about again."""
    chat = Chat()
    waiting, approval_id = await chat.ask(LIST)
    assert chat.press(approval_id, "once") == "Approved once."
    assert await waiting == ""
    again, _ = await chat.ask(LIST)
    again.cancel()


async def test_for_the_conversation_means_this_command_here_by_this_person() -> None:
    """Another command, another conversation and another person are asked again."""
    chat = Chat()
    waiting, approval_id = await chat.ask(LIST)
    chat.press(approval_id, "conversation")
    await waiting
    assert await chat.approvals.approver("c1", ANNA)(LIST) == ""
    for request, person, where in ((REMOVE, ANNA, "c1"), (LIST, BOB, "c1"), (LIST, ANNA, "c2")):
        again, _ = await chat.ask(request, person, where)
        again.cancel()


async def test_a_denial_reaches_the_model() -> None:
    """As a sentence that says not to try it another way."""
    chat = Chat()
    waiting, approval_id = await chat.ask(REMOVE)
    assert chat.press(approval_id, "deny") == "Denied."
    assert "did not allow" in await waiting


async def test_somebody_else_cannot_decide() -> None:
    """The request stays open for the one it was asked of."""
    chat = Chat()
    waiting, approval_id = await chat.ask(REMOVE)
    assert chat.press(approval_id, "once", person=BOB) == "Only the person who was asked can decide this."
    assert not waiting.done()
    chat.press(approval_id, "deny")
    await waiting


@pytest.mark.parametrize(
    ("approval_id", "choice", "where"),
    [
        ("nonsense", "once", "c1"),
        ("", "once", "c1"),
        (None, "once", "c2"),
        (None, "always", "c1"),
        (None, "", "c1"),
    ],
)
async def test_forged_answers_sound_alike(approval_id: str | None, choice: str, where: str) -> None:
    """Unknown, foreign and malformed ones tell nothing about what exists."""
    chat = Chat()
    waiting, real = await chat.ask(REMOVE)
    assert (
        chat.press(real if approval_id is None else approval_id, choice, where=where)
        == "This request is no longer open."
    )
    assert not waiting.done()
    waiting.cancel()


async def test_a_second_press_is_too_late() -> None:
    """Also before the turn has gone on."""
    chat = Chat()
    waiting, approval_id = await chat.ask(REMOVE)
    chat.press(approval_id, "deny")
    assert chat.press(approval_id, "once") == "This request is no longer open."
    await waiting


async def test_no_answer_is_a_no() -> None:
    """Every surface that shows the request learns that it is over."""
    chat = Chat(seconds=0.01)
    waiting, approval_id = await chat.ask(REMOVE)
    assert "did not answer in time" in await waiting
    assert chat.told[-1] == ("c1", ApprovalSettled(approval_id, "expired"))
    assert chat.press(approval_id, "once") == "This request is no longer open."


async def test_a_stopped_turn_closes_its_request() -> None:
    """A button that is pressed afterwards runs nothing."""
    chat = Chat()
    waiting, approval_id = await chat.ask(REMOVE)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert chat.press(approval_id, "once") == "This request is no longer open."


async def test_ids_cannot_be_guessed_and_fit_into_a_button() -> None:
    """64 bytes are all that Telegram allows."""
    chat = Chat()
    (first, one), (second, two) = await chat.ask(LIST), await chat.ask(REMOVE)
    assert one != two and len(one) >= 16
    assert len(f"approve:{one}:conversation".encode()) <= 64
    first.cancel()
    second.cancel()
