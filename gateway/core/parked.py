"""What was given up on gets another chance, or is let go, when its owner says so. Each of it once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol

import structlog

from gateway.core.inbox_codec import decode_local
from gateway.store.ports import InboxMessage, OutboxItem
from gateway.types import Place

if TYPE_CHECKING:
    from gateway.core.gateway import Gateway

log = structlog.get_logger(__name__)

_NOT_PARKED = "It is not parked any more; somebody has dealt with it."
_GONE_ON = (
    "The conversation has gone on since, so an answer would come in the wrong place. Ask there once more, or dismiss "
    "this."
)
_UNREADABLE = "It cannot be read any more, so nothing can be made of it; dismiss it."
_NOTHING_LEFT = "Nothing of it is left that could be sent; dismiss it."
_TAKEN_UP = "It is being answered now."
_REFUSED = "Whoever wrote it may not talk to this bot any more, so it was let go."
_ON_ITS_WAY = "It is on its way again."
_WHEN_BACK = "It waits until {} is connected again."
_DISMISSED = "Dismissed."


ResumeResult = Literal["yes", "refused", "unreadable"]


class RunningBot(Protocol):
    """A bot that runs in this process."""

    @property
    def is_open(self) -> bool:
        """Whether it has taken up what was left at the last stop; until then it will find more."""
        ...

    async def take_up(self, taken: InboxMessage, *, has_begun: bool) -> ResumeResult:
        """A message that was given up on before. Whether it gets an answer; if not, it is settled or parked again."""
        ...

    def bring(self, outgoing: OutboxItem) -> None:
        """A reply that was given up on before."""
        ...

    def follow(self, conversation_id: str, place: Place) -> None:
        """From now on, what happens in the conversation is brought there."""
        ...

    async def tell(self, user_id: str, sentence: str) -> bool:
        """In the direct chat with this person. Whether it arrived."""
        ...


_SENTENCES: dict[ResumeResult, str] = {"yes": _TAKEN_UP, "refused": _REFUSED, "unreadable": _UNREADABLE}


class ParkedItems:
    """Every verb gives a sentence for the one who asked for it."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._inbox = gateway.store.inbox
        self._outbox = gateway.store.outbox

    async def retry_message(self, message_id: str) -> str:
        async with self._gateway.taking_up:
            if await self._inbox.is_superseded(message_id):
                return _GONE_ON
            taken = await self._inbox.unpark(message_id)
            if taken is None:
                return _NOT_PARKED
            log.info("parked.retried", platform=taken.platform, message=message_id)
            return await self._take_up(taken)

    async def retry_reply(self, outgoing_id: str) -> str:
        async with self._gateway.taking_up:
            found = await self._outbox.unpark(outgoing_id)
            if found is None:
                return _NOTHING_LEFT if await self._outbox.is_parked(outgoing_id) else _NOT_PARKED
            platform, outgoing = found
            log.info("parked.retried", platform=platform, reply=outgoing_id)
            bot = self._gateway.bots.get(platform)
            if bot is None or not bot.is_open:
                return _WHEN_BACK.format(platform)
            bot.bring(outgoing)
            return _ON_ITS_WAY

    async def dismiss_message(self, message_id: str) -> str:
        return _DISMISSED if await self._inbox.dismiss(message_id) else _NOT_PARKED

    async def dismiss_reply(self, outgoing_id: str) -> str:
        return _DISMISSED if await self._outbox.dismiss(outgoing_id) else _NOT_PARKED

    async def _take_up(self, taken: InboxMessage) -> str:
        has_begun = bool(await self._gateway.store.sessions.known([taken.id]))
        if taken.place is not None:
            bot = self._gateway.bots.get(taken.platform)
            if bot is None or not bot.is_open:
                return _WHEN_BACK.format(taken.platform)
            return _SENTENCES[await bot.take_up(taken, has_begun=has_begun)]
        try:
            inbound = decode_local(taken)
        except (KeyError, TypeError, ValueError):
            await self._inbox.park([taken.id], "it cannot be read any more")
            return _UNREADABLE
        await self._gateway.receive(replace(inbound, has_begun=has_begun))
        return _TAKEN_UP
