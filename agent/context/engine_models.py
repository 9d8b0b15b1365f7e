"""The models an engine may ask while it works, on the account of whoever it works for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from agent import auxiliary_client
from agent.llm import Completion
from agent.llm.budget import spender
from agent.store import SessionStore

Purpose = Literal["compression", "engine_tool"]
"""What the calls were for, as the store records it."""


@asynccontextmanager
async def models_for_engine(
    store: SessionStore,
    session_id: str,
    resolver: auxiliary_client.Resolver,
    *,
    purpose: Purpose,
    deadline: auxiliary_client.Deadline | None = None,
) -> AsyncIterator[list[Completion]]:
    """Binds `call_llm` for the code inside. Gives the list in which every answer will be, as soon as it has come."""
    calls: list[Completion] = []
    recording: list[asyncio.Task[None]] = []

    def paid(_: str, call: Completion) -> asyncio.Task[None]:
        """Record the call before the next call of the same work checks the budget."""
        calls.append(call)
        record = store.record_usage(
            session_id, call.usage, model=call.model, purpose=purpose, spender=spender()
        )
        recording.append(asyncio.create_task(record))
        return recording[-1]

    try:
        loop = asyncio.get_running_loop()
        with auxiliary_client.bound(resolver, loop, on_usage=paid, deadline=deadline):
            yield calls
    finally:
        # What was asked was paid for, whatever becomes of it.
        await asyncio.gather(*recording)
