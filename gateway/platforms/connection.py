"""Keeps a connection to a chat service up: connects, notices its end, waits a little, connects again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from agent.errors import HermesError
from gateway.chat.errors import ConnectionRefused, SlowDown
from gateway.platforms.base import Health

log = structlog.get_logger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 90.0
"""At the longest, a day has fewer connections than Discord allows a bot (1,000)."""
_LONGEST_KNOCK = 5.0
"""Between tries while the service cannot be reached at all."""

_REFUSED_PAUSE = 300.0
"""Between tries that only a person can make succeed: a new token, a permission."""

_STARTUP_SECONDS = 5.0
"""What the start waits for a first result, so that the start-up lines can tell it."""

_ENDED = "The connection ended."

Connect = Callable[[Callable[[], None]], Awaitable[None]]
"""Makes one connection and returns or raises when it has ended. Calls what it is given once messages can come."""


class ReconnectingConnection:
    """One connection after the other, until it is stopped."""

    def __init__(self, name: str, connect: Connect, *, first_pause: float = _FIRST_PAUSE) -> None:
        self._name = name
        self._first_pause = first_pause
        self._connect = connect
        self._task: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self._asked_pause = 0.0
        self._was_up = False
        self.health = Health("starting")

    async def start(self) -> None:
        self._task = asyncio.create_task(self._keep_up(), name=f"{self._name} connection")
        with suppress(TimeoutError):
            await asyncio.wait_for(self._tried.wait(), _STARTUP_SECONDS)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    def lost(self, detail: str) -> None:
        """The connection is interrupted and mends itself: no end of it, and `up` will be called again."""
        if self.health.state == "up":
            log.info("platform.interrupted", platform=self._name)
            self.health = Health("down", detail)

    async def _keep_up(self) -> None:
        failures, clock = 0, asyncio.get_running_loop()
        while True:
            began, self._asked_pause, self._was_up = clock.time(), 0.0, False
            problem = await self._one_connection()
            # One that came up and broke at once is no success: services count how often a bot connects.
            lasted = clock.time() - began > _LONGEST_PAUSE
            failures = 1 if lasted else failures + 1
            self._tell(problem)
            await asyncio.sleep(max(self._pause(failures), self._asked_pause))

    async def _one_connection(self) -> Health:
        """How it ended."""
        try:
            await self._connect(self._up)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Something inside the library was cancelled, not this connection.
            return Health("down", _ENDED)
        except ConnectionRefused as error:
            return Health("refused", str(error))
        except SlowDown as error:
            self._asked_pause = error.retry_after
            return Health("down", str(error))
        except HermesError as error:
            return Health("down", str(error))
        except Exception as error:  # noqa: BLE001 - whatever a service's library does, the bot must come back
            await asyncio.to_thread(log.error, "platform.crashed", platform=self._name, exc_info=error)
            return Health("down", "The connection broke down; the log says more.")
        return Health("down", _ENDED)

    def _up(self) -> None:
        self._was_up = True
        if self.health.state != "up":
            log.info("platform.up", platform=self._name)
        self.health = Health("up")
        self._tried.set()

    def _tell(self, problem: Health) -> None:
        if problem != self.health:
            log.warning("platform.down", platform=self._name, state=problem.state, detail=problem.detail)
        self.health = problem
        self._tried.set()

    def _pause(self, failures: int) -> float:
        if self.health.state == "refused":
            return _REFUSED_PAUSE
        # To knock at a door that nobody opens costs nothing.
        most = _LONGEST_PAUSE if self._was_up else _LONGEST_KNOCK
        longest = min(most, self._first_pause * 2 ** (failures - 1))
        return random.uniform(longest / 2, longest)  # noqa: S311 - many bots must not come back in step
