"""Holds and renews leases of conversations for this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from functools import partial

import structlog

from agent.errors import StoreError
from agent.ids import new_id
from gateway.core.retry import retry_store
from gateway.store.ports import Fence, Leases

log = structlog.get_logger(__name__)


LEASE_SECONDS = 30.0


_RETRY_SECONDS = 0.5


class LeaseHolder:
    """This process as a holder of leases."""

    def __init__(self, leases: Leases, *, seconds: float = LEASE_SECONDS) -> None:
        self.id = new_id("proc")
        self._leases = leases
        self._seconds = seconds
        self._held: set[str] = set()
        self._renewing: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def hold(self, conversation_id: str) -> AsyncIterator[Fence]:
        """Wait until no other process holds the lease, and hold it. The fence goes with every write inside."""
        token = await self._acquire(conversation_id)
        self._held.add(conversation_id)
        if self._renewing is None:
            # An empty context: the task outlives the turn that starts it and must not inherit its log fields.
            self._renewing = asyncio.create_task(self._renew(), name="leases", context=Context())
        try:
            yield Fence(conversation_id, token)
        finally:
            self._held.discard(conversation_id)
            with suppress(StoreError):  # the lease expires by itself
                await self._leases.release(conversation_id, holder=self.id)

    async def close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])

    async def _acquire(self, conversation_id: str) -> int:
        while True:
            acquire = partial(self._leases.acquire, conversation_id, holder=self.id, seconds=self._seconds)
            token = await retry_store(acquire)
            if token is not None:
                return token
            await asyncio.sleep(_RETRY_SECONDS)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._seconds / 3)
            if self._held:
                try:
                    await self._leases.renew(list(self._held), holder=self.id, seconds=self._seconds)
                except StoreError as error:
                    log.warning("leases.not_renewed", error=str(error))
