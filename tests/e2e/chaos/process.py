"""The Hermes that is killed and started again, seen from the one who does it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.hermes_process import environment
from tests.support.warm import HERMES, spawn


@dataclass(slots=True)
class Life:
    """From a start to the next. Moments are those of the monotonic clock."""

    number: int
    pid: int
    log: Path
    started: float
    killed: float | None = None
    ended: float | None = None

    @property
    def is_over(self) -> bool:
        return self.killed is not None or self.ended is not None


class Hermes:
    """`cold`: each interpreter imports its libraries itself, for those who measure memory."""

    def __init__(self, home: Path, config: dict[str, Any], *, cold: bool) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.lives: list[Life] = []
        self._config = home / "hermes.yaml"
        self._config.write_text(yaml.safe_dump(config))
        self._spawn = asyncio.create_subprocess_exec if cold else spawn
        self._end: asyncio.Task[int] | None = None

    @classmethod
    @asynccontextmanager
    async def prepared(
        cls, home: Path, config: dict[str, Any], *, cold: bool = False
    ) -> AsyncIterator[Hermes]:
        """Not started yet; killed at the end, if it still lives then."""
        hermes = cls(home, config, cold=cold)
        try:
            yield hermes
        finally:
            if hermes.is_alive:
                hermes.kill()
                await hermes.ended()

    @property
    def life(self) -> Life:
        return self.lives[-1]

    @property
    def is_alive(self) -> bool:
        return bool(self.lives) and not self.life.is_over

    @property
    def database(self) -> Path:
        return self.home / "state.db"

    async def start(self) -> None:
        assert not self.is_alive
        path = self.home / f"life-{len(self.lives) + 1:03d}.log"
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        started = time.monotonic()
        process = await self._spawn(
            *HERMES, "--config", str(self._config), "run",
            stdout=log, stderr=asyncio.subprocess.STDOUT, env=environment(self.home),
        )  # fmt: skip
        os.close(log)
        self.lives.append(Life(len(self.lives) + 1, process.pid, path, started))
        self._end = asyncio.create_task(self._note_end(process.wait(), self.life))

    def kill(self) -> None:
        """Kill at once, without an await between decision and signal."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.kill(self.life.pid, signal.SIGKILL)
            self.life.killed = time.monotonic()

    async def stop(self, seconds: float = 30.0) -> int:
        """The orderly way; gives the exit code."""
        os.kill(self.life.pid, signal.SIGTERM)
        return await asyncio.wait_for(self.ended(), seconds)

    async def ended(self) -> int:
        assert self._end
        return await asyncio.shield(self._end)

    def is_uncertain(self, at: float, grace: float) -> bool:
        """Whether a call that arrived then was among the last things that its process did: it may not have heard, or
        not have noted, what became of it."""
        for life, following in zip(self.lives, [*self.lives[1:], None], strict=True):
            if life.killed is not None and at <= (following.started if following else at):
                return life.killed - grace <= at
        return False

    async def _note_end(self, waiting: Any, life: Life) -> int:
        code: int = await waiting
        life.ended = time.monotonic()
        return code
