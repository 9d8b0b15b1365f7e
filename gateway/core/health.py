"""Whether messages can be taken now: `/readyz`. Says what is wrong, and nothing about anybody."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.errors import StoreCorrupt, StoreError
from gateway.core.gateway import Gateway

_WRITE_SECONDS = 2.0
_REMEMBERED_SECONDS = 1.0
"""Everybody may ask, and each look at the store writes to it."""

_NO_ANSWER = "The store does not answer; another program may hold the database, or the disk is busy."
_STOPPING = "Hermes is stopping; what arrives now is answered after the next start."


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
    """The state of each."""
    problems: Mapping[str, str]
    """A sentence for each part that keeps messages from being taken: a platform, `store` or `gateway`."""

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
        self._looked_at: float | None = None
        self._looking = asyncio.Lock()

    async def check(self) -> HealthReport:
        problems = {
            platform.name: platform.health.detail or f"It is {platform.health.state}."
            for platform in self._platforms
            if platform.health.state != "up"
        }
        if problem := await self._problem_of_the_store():
            problems["store"] = problem
        if self._gateway.is_closing:
            problems["gateway"] = _STOPPING
        return HealthReport({each.name: each.health.state for each in self._platforms}, problems)

    async def _problem_of_the_store(self) -> str:
        clock = asyncio.get_running_loop().time
        async with self._looking:
            if self._looked_at is None or clock() - self._looked_at > _REMEMBERED_SECONDS:
                self._store_problem = await self._try_to_write()
                self._looked_at = clock()
            return self._store_problem

    async def _try_to_write(self) -> str:
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                await self._gateway.store.health.check_writable()
        except TimeoutError:
            return _NO_ANSWER
        except StoreError as error:
            # The sentence alone: the detail may name files.
            return (type(error).__doc__ or "").strip()
        return (StoreCorrupt.__doc__ or "").strip() if self._gateway.store.health.damage else ""
