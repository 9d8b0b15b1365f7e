"""The Hermes that is killed and started again, seen from the one who does it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.worlds.hermes_process import environment

ROOT = Path(__file__).parents[2]
_START_SECONDS = 60.0


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
    def __init__(self, home: Path, config: dict[str, Any], nursery: asyncio.subprocess.Process) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.lives: list[Life] = []
        self._config = home / "hermes.yaml"
        self._config.write_text(yaml.safe_dump(config))
        self._nursery = nursery
        self._end: asyncio.Task[int] | None = None

    @classmethod
    @asynccontextmanager
    async def prepared(
        cls, home: Path, config: dict[str, Any], *, preloaded: bool = True
    ) -> AsyncIterator[Hermes]:
        """Not started yet. `preloaded`: forked from a process that has imported everything."""
        pipe, how = asyncio.subprocess.PIPE, ["preloaded"] if preloaded else []
        nursery = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.chaos.nursery", *how, stdin=pipe, stdout=pipe, cwd=ROOT
        )
        hermes = cls(home, config, nursery)
        try:
            await hermes._line(_START_SECONDS)
            yield hermes
        finally:
            if hermes.is_alive:
                hermes.kill()
                await hermes.ended()
            assert nursery.stdin
            nursery.stdin.close()
            await nursery.wait()

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
        assert not self.is_alive and self._nursery.stdin
        log = self.home / f"life-{len(self.lives) + 1:03d}.log"
        order = {"config": str(self._config), "log": str(log), "environment": environment(self.home)}
        self._nursery.stdin.write(json.dumps(order).encode() + b"\n")
        pid = int(await self._line(_START_SECONDS))
        self.lives.append(Life(len(self.lives) + 1, pid, log, time.monotonic()))
        self._end = asyncio.create_task(self._read_end(self.life))

    def kill(self) -> None:
        """At once: there is no moment between the decision and the signal."""
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

    async def _read_end(self, life: Life) -> int:
        code = int(await self._line(None))
        life.ended = time.monotonic()
        return code

    async def _line(self, seconds: float | None) -> str:
        assert self._nursery.stdout
        line = await asyncio.wait_for(self._nursery.stdout.readline(), seconds)
        assert line, "the nursery has ended"
        return line.decode().strip()
