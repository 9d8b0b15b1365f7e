"""Reconnecting connection to a chat service: connects, waits after a failure, and connects again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import structlog

from agent.errors import HermesError
from gateway.chat.errors import ConnectionRefused, SlowDown
from gateway.core.retry import Crash, guarded
from gateway.platforms.base import Health

log = structlog.get_logger(__name__)

_FIRST_DELAY, _MAX_DELAY = 1.0, 90.0
"""The longest delay keeps a bot below the 1,000 connections a day that Discord allows."""
_MAX_UNREACHABLE_DELAY = 5.0
"""Longest delay while the service cannot be reached at all."""

_REFUSED_DELAY = 300.0
"""Delay between attempts that need a person to succeed: a new token, a permission."""

_STARTUP_SECONDS = 5.0
"""Time that `start` waits for a first result, so that the start-up lines can show it."""

_ENDED = "The connection ended."
_CRASHED = "The connection failed unexpectedly; the log says more."

Connect = Callable[[Callable[[], None]], Awaitable[None]]
"""Makes one connection, and returns or raises when it has ended. Calls its argument once messages can arrive."""


class ReconnectingConnection:
    """Makes one connection after the other until it is stopped, and reports their health."""

    def __init__(self, name: str, connect: Connect, *, first_delay: float = _FIRST_DELAY) -> None:
        self._name = name
        self._first_delay = first_delay
        self._connect = connect
        self._task: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self._requested_delay = 0.0
        self._was_up = False
        self.health = Health("starting")

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"{self._name} connection")
        with suppress(TimeoutError):
            await asyncio.wait_for(self._tried.wait(), _STARTUP_SECONDS)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    def mark_down(self, detail: str) -> None:
        """Report an interruption that the connection itself repairs; it calls `up` again afterwards."""
        if self.health.state == "up":
            log.info("platform.interrupted", platform=self._name)
            self.health = Health("down", detail)

    async def _run(self) -> None:
        failures, clock = 0, asyncio.get_running_loop()
        while True:
            began, self._requested_delay, self._was_up = clock.time(), 0.0, False
            problem = await self._connect_once()
            # A connection that breaks at once is a failure: services count how often a bot connects.
            lasted = clock.time() - began > _MAX_DELAY
            failures = 1 if lasted else failures + 1
            self._report(problem)
            await asyncio.sleep(max(self._delay(failures), self._requested_delay))

    async def _connect_once(self) -> Health:
        """Make one connection, and return why it ended."""
        try:
            outcome = await guarded(
                partial(self._connect, self._mark_up), "platform.crashed", platform=self._name
            )
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The library cancelled one of its tasks, not this connection.
            return Health("down", _ENDED)
        except ConnectionRefused as error:
            return Health("refused", str(error))
        except SlowDown as error:
            self._requested_delay = error.retry_after
            return Health("down", str(error))
        except HermesError as error:
            return Health("down", str(error))
        return Health("down", _CRASHED if isinstance(outcome, Crash) else _ENDED)

    def _mark_up(self) -> None:
        self._was_up = True
        if self.health.state != "up":
            log.info("platform.up", platform=self._name)
        self.health = Health("up")
        self._tried.set()

    def _report(self, problem: Health) -> None:
        if problem != self.health:
            log.warning("platform.down", platform=self._name, state=problem.state, detail=problem.detail)
        self.health = problem
        self._tried.set()

    def _delay(self, failures: int) -> float:
        if self.health.state == "refused":
            return _REFUSED_DELAY
        # An attempt that reaches no server counts against no limit of the service.
        limit = _MAX_DELAY if self._was_up else _MAX_UNREACHABLE_DELAY
        longest = min(limit, self._first_delay * 2 ** (failures - 1))
        return random.uniform(longest / 2, longest)  # noqa: S311 - bots must not reconnect in step
