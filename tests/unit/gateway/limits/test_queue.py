"""How many messages of one person may wait in a conversation."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agent.events import TextDelta
from agent.store import Address
from gateway.config.schema import LimitsConfig
from gateway.errors import QueueFull
from gateway.limits import Limits
from gateway.types import OWNER, InboundMessage
from tests.support.command_harness import opened


async def test_the_queue_is_bounded_however_the_messages_arrive(tmp_path: Path) -> None:
    """All at the same time, while each is being written to the disk; what is taken is answered, the rest refused."""
    async with opened(tmp_path) as harness:
        harness.gateway.limits = Limits(LimitsConfig(waiting_messages=5), harness.store.sessions)
        gate = asyncio.Event()
        harness.llm.then(["Slowly", gate, "."], *["Yes."] * 100)
        await harness.send("the first")
        await harness.until(TextDelta)
        messages = [InboundMessage(Address("web", "desk"), OWNER, f"{number}") for number in range(100)]
        outcomes = await asyncio.gather(
            *(harness.gateway.receive(message) for message in messages), return_exceptions=True
        )
        refused = [outcome for outcome in outcomes if isinstance(outcome, QueueFull)]
        assert len(refused) == 95
        assert "send it again later. (5 are waiting.)" in str(refused[0])
        await harness.send("/stop")  # which never waits
        async with asyncio.timeout(20):
            while await harness.store.inbox.waiting("web"):  # noqa: ASYNC110 - turns of other tasks
                await asyncio.sleep(0.005)
        assert len([message for message in await harness.history() if message.role == "user"]) == 6
