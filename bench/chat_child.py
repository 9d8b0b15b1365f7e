"""A bot in a process of its own: it shares no interpreter with the service that it talks to."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import IO, Any

Platforms = dict[str, Any]
"""The section of a configuration, with one platform in it."""


class Child:
    def __init__(self, process: asyncio.subprocess.Process, errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors

    async def cpu_seconds(self) -> float:
        """Used since the process began, by all of its threads."""
        return float(await self.ask("cpu"))

    async def ask(self, line: str) -> str:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{line}\n".encode())
        answer = await self._process.stdout.readline()
        if not answer:
            self._errors.seek(0)
            raise RuntimeError(f"The bot has ended:\n{self._errors.read().decode()[-3_000:]}")
        return answer.decode()


@asynccontextmanager
async def running(module: str, platforms: Platforms) -> AsyncIterator[Child]:
    """A module that calls `run`. The bot is connected when this is entered, and ends with its standard input."""
    pipe = asyncio.subprocess.PIPE
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, stdin=pipe, stdout=pipe, stderr=errors
        )
        assert process.stdin
        child = Child(process, errors)
        try:
            await child.ask(json.dumps(platforms))
            yield child
        finally:
            process.stdin.close()
            await process.wait()


def run(connected: Callable[[Platforms], AbstractAsyncContextManager[None]]) -> None:
    """In the child: the first line is the configuration, every further one asks for the CPU that was used."""
    platforms = json.loads(sys.stdin.readline())
    asyncio.run(_serve(connected(platforms)))


async def _serve(bot: AbstractAsyncContextManager[None]) -> None:
    async with bot:
        print("connected", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(time.process_time(), flush=True)
