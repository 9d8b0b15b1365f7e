"""Delivers one answer with the real delivery and a real outbox, and one fault on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from agent.events import StepStarted, TextDelta, TurnDone, TurnStarted
from agent.ids import new_id
from agent.messages import Message
from agent.store import Address
from gateway.chat.delivery.manager import DeliveryManager
from gateway.chat.delivery.text_message import CURSOR
from gateway.core.events import EventHub
from gateway.store.ports import GatewayStore, InboxMessage
from gateway.store.sqlite.store import SqliteStore
from tests.support.chat_harness import FAST
from tests.support.chat_service import RecordedCall, VisibleMessage
from tests.support.fault_services import Chat, Trouble

BEGINNING = "The answer begins with a sentence that is long enough to be seen. "
MIDDLE = "Then it goes on, and **this** is where an edit comes in.\n\n"

UNHURRIED = replace(FAST, typing_after=60.0, close_timeout=60.0)
"""A slow machine causes no time-outs."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One call of an answer that is visible before it is complete and needs a second message."""

    verb: Literal["send", "edit"]
    wanted: Callable[[str], bool] = lambda text: True
    skip: int = 0


MOMENTS = {
    "first send": Moment("send"),
    "edit": Moment("edit", lambda text: text.endswith(CURSOR.strip())),
    "final edit": Moment("edit", lambda text: not text.endswith(CURSOR.strip())),
    "split": Moment("send", skip=1),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    text: str
    """The text of the model."""
    seen: list[VisibleMessage]
    """The visible messages in the end; a ghost is one whose id the outbox does not know."""
    state: str
    reason: str
    """Why the outbox row is parked."""
    met: RecordedCall
    """The call that met the fault."""
    later: list[RecordedCall]
    """All later calls."""


async def deliver_with_fault(chat: Chat, store: GatewayStore, trouble: Trouble, moment: Moment) -> Outcome:
    """Let each part become visible, unless the fault comes first."""
    question, step = new_id("msg"), new_id("msg")
    platform = chat.port.platform
    conversation = await store.sessions.open_conversation(Address(platform, chat.place.chat_id), person="ada")
    await store.inbox.add(InboxMessage(question, platform, {}, chat.place, "1"))
    hub = EventHub()
    delivery = DeliveryManager(hub, chat.port, store.outbox, timing=UNHURRIED)
    delivery.follow(conversation.id, chat.place)
    chat.meet(trouble, moment.verb, moment.wanted, moment.skip)

    hub.publish(conversation.id, TurnStarted(question, "hi"))
    hub.publish(conversation.id, StepStarted(step))
    for part in (BEGINNING, MIDDLE):
        hub.publish(conversation.id, TextDelta(part))
        if chat.port.can_edit:
            await chat.until(lambda part=part: chat.has_met or _ends_with(chat, part))  # type: ignore[misc]
    text = BEGINNING + MIDDLE + _end(chat.port.limit)
    said = Message("assistant", text, id=step)
    await store.sessions.append(conversation.live_session_id, [said], answers=question, settles=[question])
    hub.publish(conversation.id, TextDelta(text.removeprefix(BEGINNING + MIDDLE)))
    hub.publish(conversation.id, TurnDone(text))
    await asyncio.wait_for(delivery.close(), UNHURRIED.close_timeout)

    state, reason, shown_in = await _row(store, step)
    met = [call for call in chat.calls if call.verb == moment.verb and moment.wanted(call.text)][moment.skip]
    later = [call for call in chat.calls if call.at > met.at]
    seen = [replace(message, is_ghost=message.id not in shown_in) for message in chat.seen]
    return Outcome(text, seen, state, reason, met, later)


def _ends_with(chat: Chat, part: str) -> bool:
    return any(message.text.removesuffix(CURSOR).rstrip().endswith(part.strip()) for message in chat.seen)


def _end(limit: int) -> str:
    paragraph = "this paragraph, with **a bold word**, makes it too long for one message."
    return "\n\n".join(f"Number {number}: {paragraph}" for number in range(1, 3 + limit // len(paragraph)))


async def _row(store: GatewayStore, outgoing_id: str) -> tuple[str, str, list[str]]:
    assert isinstance(store, SqliteStore)
    query = "SELECT state, reason, shown_in FROM outbox WHERE id = ?"
    row = await store.database.read(lambda database: database.execute(query, (outgoing_id,)).fetchone())
    return row[0], row[1], json.loads(row[2])
