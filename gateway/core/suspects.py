"""Messages that may have killed the process. Each death counts for every message that was at work, so a suspect is
retried later and alone: then a further death counts only for the message that may have caused it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import structlog

from gateway.store.ports import InboxMessage

log = structlog.get_logger(__name__)

SUSPECT_AFTER = 2
"""Deaths of the process while a message was worked on."""
SUSPECT_PAUSE = 1.0
"""Seconds before a suspect is retried; twice as many after each further death. Others are answered meanwhile, and a
process that is killed again and again from outside dies while the suspect waits, which does not count."""
_LONGEST_WAIT = 60.0
"""The longest pause in seconds, and how long one suspect may hold up the next."""


class Suspects:
    def __init__(self, pause: float = SUSPECT_PAUSE) -> None:
        self._pause = pause
        self._deaths: dict[str, int] = {}
        """By message."""
        self._one_at_a_time = asyncio.Lock()

    def find(self, left: Iterable[InboxMessage]) -> None:
        """Looks for suspects among the messages that an earlier process left."""
        self._deaths |= {taken.id: taken.attempts for taken in left if taken.attempts >= SUSPECT_AFTER}

    @asynccontextmanager
    async def alone(self, message_id: str) -> AsyncIterator[None]:
        """Waits before a suspect is retried. Does nothing for any other message."""
        deaths = self._deaths.pop(message_id, 0)
        async with AsyncExitStack() as held:
            if deaths:
                pause = min(self._pause * 2 ** (deaths - SUSPECT_AFTER), _LONGEST_WAIT)
                log.warning("turn.suspect", deaths=deaths, seconds=pause)
                await asyncio.sleep(pause)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LONGEST_WAIT):
                        await held.enter_async_context(self._one_at_a_time)
            yield
