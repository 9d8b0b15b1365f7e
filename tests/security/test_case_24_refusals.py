"""A service that rejects requests without a retry delay is not retried in a tight loop."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from gateway.chat.errors import SlowDown
from tests.support.chat_harness import FAST, chat_room
from tests.support.chat_service import ChatService


async def test_a_pause_of_no_time_is_still_a_pause() -> None:
    """`retry_after: 0`, again and again: a few calls, each a little later, and the text once it gets through."""
    service = ChatService()
    service.fail("send", SlowDown(0), permanent=True)
    async with chat_room(service, timing=replace(FAST, min_pause=0.03)) as room:
        room.answer("Here it is.")
        await service.until(lambda: len(service.calls_of("send")) == 5)
        assert all(later.at - earlier.at >= 0.03 for earlier, later in pairwise(service.calls_of("send")))
        service.heal()
        await room.sees("Here it is.")
