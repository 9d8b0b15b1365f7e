"""Delivers the events of one conversation through the real hub to a chat service in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent.events import TextDelta, TurnDone, TurnEvent, TurnStarted
from gateway.chat.delivery.item import POSSIBLY_TWICE
from gateway.chat.delivery.manager import DeliveryManager
from gateway.chat.delivery.pacing import Timing
from gateway.chat.delivery.text_message import CURSOR
from gateway.core.events import EventHub
from gateway.text.unicode import INVISIBLE
from gateway.types import Place
from tests.support.chat_service import ChatService, RecordedCall, VisibleMessage

CONVERSATION = "conv_1"
ALICE = Place("alice")
GROUP = Place("group", kind="group", group_id="group")

FAST = Timing(
    first_text=0.01,
    message_gap=0.002,
    max_edit_interval=0.05,
    typing_after=0.002,
    typing_every=0.01,
    typing_cooldown=0.05,
    status_after=0.02,
    first_backoff=0.002,
    max_backoff=0.004,
    min_pause=0.001,
)


class ChatHarness:
    def __init__(self, service: ChatService, *, place: Place, timing: Timing, streaming: bool) -> None:
        self.service = service
        self.hub = EventHub()
        self.delivery = DeliveryManager(self.hub, service, streaming=streaming, timing=timing)
        self.delivery.follow(CONVERSATION, place)

    def play(self, *events: TurnEvent) -> None:
        for event in events:
            self.hub.publish(CONVERSATION, event)

    def answer(self, text: str) -> None:
        """Publish a complete turn."""
        self.play(TurnStarted("msg", "hi"), TextDelta(text), TurnDone(text))

    async def sees(self, text: str) -> VisibleMessage:
        """Wait until a message contains this text and return it."""
        await self.service.until(lambda: any(text in shown for shown in self.service.texts()))
        return next(message for message in self.service.messages if text in message.text)

    def typing_in(self, place: Place) -> list[RecordedCall]:
        return [call for call in self.service.calls_of("typing") if call.chat_id == place.chat_id]

    async def ends(self) -> list[VisibleMessage]:
        """Finish the delivery and return the visible messages."""
        await self.delivery.close()
        return self.service.messages


@asynccontextmanager
async def chat_room(
    service: ChatService | None = None, *, place: Place = ALICE, timing: Timing = FAST, streaming: bool = True
) -> AsyncIterator[ChatHarness]:
    room = ChatHarness(service or ChatService(), place=place, timing=timing, streaming=streaming)
    yield room
    await room.delivery.close()
    assert room.service.violations == []


def reads_as(messages: list[VisibleMessage], text: str) -> bool:
    """Return whether these messages in order are the text: nothing lost, repeated or reordered.

    Ignore marks of Hermes, ghosts, invisible characters between two messages, and fences that are closed or reopened
    there. After an edit that may or may not have arrived, a marked message may repeat what the edited one shows.
    """
    reached = {0}
    repeatable: set[int] = set()
    for message in messages:
        if message.is_ghost:
            continue
        begins = reached | repeatable if message.text.startswith(POSSIBLY_TWICE) else reached
        reached = {
            end
            for begin in begins
            for body in _possible_bodies(message.text)
            if (end := _end_of(text, begin, body)) is not None
        }
        may_come_again = bool(reached) and message.is_in_doubt
        repeatable = set(range(min(begins), max(reached))) if may_come_again else set()
    return any(not text[end:].strip(INVISIBLE) for end in reached)


def _possible_bodies(shown: str) -> set[str]:
    lines = shown.removeprefix(POSSIBLY_TWICE + "\n\n").removesuffix(CURSOR).split("\n")
    opened = {0, 1} if _is_fence(lines[0]) else {0}
    closed = {0, 1} if _is_fence(lines[-1]) else {0}
    return {"\n".join(lines[begin : len(lines) - end]) for begin in opened for end in closed}


def _is_fence(line: str) -> bool:
    return line.lstrip(" \t>").startswith(("```", "~~~"))


def _end_of(text: str, begin: int, body: str) -> int | None:
    seen = body.strip(INVISIBLE)
    if not seen:
        return begin
    position = len(text) - len(text[begin:].lstrip(INVISIBLE))
    return position + len(seen) if text.startswith(seen, position) else None
