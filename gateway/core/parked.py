"""Retries or dismisses parked messages and replies, each at most once, when the owner asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import structlog

from gateway.store.ports import InboxMessage, OutboxItem
from gateway.types import Place

if TYPE_CHECKING:
    from gateway.core.gateway import Gateway

log = structlog.get_logger(__name__)

_NOT_PARKED = "It is no longer parked; it was retried or dismissed before."
_SUPERSEDED = (
    "The conversation has moved on, so an answer would come out of place. Ask there again, or dismiss it."
)
_NOTHING_LEFT = "Nothing of it is left to send; dismiss it."
_SENDING = "It is being sent again."
_WAITS = "It waits until {} is connected again."
_DISMISSED = "Dismissed."

ResumeResult = Literal["resumed", "refused", "unreadable"]


class RunningBot(Protocol):
    """A chat bot that runs in this process."""

    @property
    def is_open(self) -> bool:
        """Whether the bot has resumed an earlier process's messages. Before that, it will find parked items itself."""
        ...

    async def resume(self, row: InboxMessage, *, is_resumed: bool) -> ResumeResult:
        """Answer a message that was parked. A message that cannot be answered is marked done or parked again."""
        ...

    def deliver(self, item: OutboxItem) -> None:
        """Deliver a reply that was parked."""
        ...

    def follow(self, conversation_id: str, place: Place) -> None:
        """Deliver the conversation's events to this place from now on."""
        ...

    async def send_notice(self, user_id: str, text: str) -> bool:
        """Send a text to the direct chat with this person. Returns whether it arrived."""
        ...


_SENTENCES: dict[ResumeResult, str] = {
    "resumed": "It is being answered now.",
    "refused": "Its author may no longer talk to this bot, so the message was dropped.",
    "unreadable": "It cannot be read, so it cannot be retried; dismiss it.",
}


class ParkedItems:
    """Verbs for parked messages and replies. Each returns a sentence for the person who asked."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._inbox = gateway.store.inbox
        self._outbox = gateway.store.outbox

    async def retry_message(self, message_id: str) -> str:
        async with self._gateway.recovery_lock:
            if await self._inbox.is_superseded(message_id):
                return _SUPERSEDED
            row = await self._inbox.unpark(message_id)
            if row is None:
                return _NOT_PARKED
            log.info("parked.retried", platform=row.platform, message=message_id)
            return await self._resume(row)

    async def retry_reply(self, outbox_id: str) -> str:
        async with self._gateway.recovery_lock:
            found = await self._outbox.unpark(outbox_id)
            if found is None:
                return _NOTHING_LEFT if await self._outbox.is_parked(outbox_id) else _NOT_PARKED
            platform, item = found
            log.info("parked.retried", platform=platform, reply=outbox_id)
            bot = self._gateway.bots.get(platform)
            if bot is None or not bot.is_open:
                return _WAITS.format(platform)
            bot.deliver(item)
            return _SENDING

    async def dismiss_message(self, message_id: str) -> str:
        return _DISMISSED if await self._inbox.dismiss(message_id) else _NOT_PARKED

    async def dismiss_reply(self, outbox_id: str) -> str:
        return _DISMISSED if await self._outbox.dismiss(outbox_id) else _NOT_PARKED

    async def _resume(self, row: InboxMessage) -> str:
        is_resumed = bool(await self._gateway.store.sessions.known([row.id]))
        if row.place is not None:
            bot = self._gateway.bots.get(row.platform)
            if bot is None or not bot.is_open:
                return _WAITS.format(row.platform)
            return _SENTENCES[await bot.resume(row, is_resumed=is_resumed)]
        is_readable = await self._gateway.resume(row, is_resumed=is_resumed)
        return _SENTENCES["resumed" if is_readable else "unreadable"]
