"""Checks whether Hermes can accept messages now, for `/readyz`. A report names problems, but no person."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.errors import StoreCorrupt, StoreError
from gateway.core.gateway import Gateway

_WRITE_TIMEOUT = 2.0
_CACHE_SECONDS = 1.0
"""How long a result is reused: anyone may ask, and each check writes to the store."""

_NO_ANSWER = "The store does not respond: another program may have locked the database, or the disk is busy."
_STOPPING = "Hermes is stopping; it answers new messages after the next start."


class _Health(Protocol):
    @property
    def state(self) -> str: ...

    @property
    def detail(self) -> str: ...


class _Platform(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def health(self) -> _Health: ...


@dataclass(frozen=True, slots=True)
class HealthReport:
    platforms: Mapping[str, str]
    """The state of each platform."""
    problems: Mapping[str, str]
    """A sentence for each part that cannot accept messages: a platform, `store` or `gateway`."""

    @property
    def is_ready(self) -> bool:
        return not self.problems

    @property
    def platforms_up(self) -> dict[str, bool]:
        return {name: state == "up" for name, state in self.platforms.items()}


class Readiness:
    def __init__(self, gateway: Gateway, platforms: Sequence[_Platform]) -> None:
        self._gateway = gateway
        self._platforms = platforms
        self._store_problem = ""
        self._checked_at: float | None = None
        self._lock = asyncio.Lock()

    async def check(self) -> HealthReport:
        problems = {
            platform.name: platform.health.detail or f"It is {platform.health.state}."
            for platform in self._platforms
            if platform.health.state != "up"
        }
        if problem := await self._check_store():
            problems["store"] = problem
        if self._gateway.is_closing:
            problems["gateway"] = _STOPPING
        return HealthReport({each.name: each.health.state for each in self._platforms}, problems)

    async def _check_store(self) -> str:
        clock = asyncio.get_running_loop().time
        async with self._lock:
            if self._checked_at is None or clock() - self._checked_at > _CACHE_SECONDS:
                self._store_problem = await self._store_error()
                self._checked_at = clock()
            return self._store_problem

    async def _store_error(self) -> str:
        try:
            async with asyncio.timeout(_WRITE_TIMEOUT):
                await self._gateway.store.health.check_writable()
        except TimeoutError:
            return _NO_ANSWER
        except StoreError as error:
            # Without its detail, which may name files.
            return (type(error).__doc__ or "").strip()
        return (StoreCorrupt.__doc__ or "").strip() if self._gateway.store.health.damage else ""
