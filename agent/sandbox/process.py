"""Runs a command bounded in time and output, and ends it with everything it started."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from agent.aio import finish_despite_cancel

log = structlog.get_logger(__name__)

_MARK = "HERMES_RUN"
"""An environment variable whose value tells the processes of one run from all others."""

_SWEEPS = 20
_END_SECONDS = 5.0
_DRAIN_SECONDS = 2.0
_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a command: exit code and output."""

    exit_code: int | None
    """None if it ran out of time and was killed."""
    output: bytes
    """Standard output and error as they came; the middle is missing if it was too much."""
    left_out: int
    """Bytes missing from the middle."""


async def run_process(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    seconds: float,
    keep_bytes: int = 1_000_000,
    pass_fds: Sequence[int] = (),
    end: Callable[[], bool] | None = None,
    starts_processes: bool = True,
) -> Finished:
    """Run a command. When this returns or raises, also by cancellation, every process of the command is gone.

    `end` is for a command that ends only after everything it started: it ends those, and returns whether it could.
    """
    mark = secrets.token_hex(16)
    process: asyncio.subprocess.Process | None = None
    exit_code: int | None = None
    async with _collected_output(keep_bytes) as (write_end, output):
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=cwd,
                env={**env, _MARK: mark},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                start_new_session=True,
                pass_fds=pass_fds,
            )
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    exit_code = await process.wait()
        finally:
            # It uses what `_collected_output` closes right after it.
            await finish_despite_cancel(_end(process, mark, end, starts_processes=starts_processes))
    return Finished(exit_code, output.kept(), output.left_out)


async def _end(
    process: asyncio.subprocess.Process | None,
    mark: str,
    end: Callable[[], bool] | None,
    *,
    starts_processes: bool,
) -> None:
    over = process is not None and process.returncode is not None
    if end is not None and not over and end() and process is not None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await process.wait()
    if process is not None:
        over = process.returncode is not None
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if end is not None and not over:
        # Only now may it have come to where it can be ended.
        end()
    # Only what ended by itself, not by a signal, has waited for the others.
    is_last = end is not None and over and process is not None and (process.returncode or 0) >= 0
    if process is None or (starts_processes and not is_last):
        await asyncio.to_thread(_kill_marked, mark)
    if process is not None:
        await process.wait()


class _HeadAndTail:
    """Keeps the beginning and the end of a stream of any length."""

    def __init__(self, keep_bytes: int) -> None:
        self._half = keep_bytes // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.left_out = 0

    def add(self, chunk: bytes) -> None:
        room = self._half - len(self._head)
        self._head += chunk[:room]
        rest = chunk[room:]
        if rest:
            self._tail.append(rest)
            self._tail_size += len(rest)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._half:
            dropped = len(self._tail.popleft())
            self._tail_size -= dropped
            self.left_out += dropped

    def kept(self) -> bytes:
        return bytes(self._head) + b"".join(self._tail)


@asynccontextmanager
async def _collected_output(keep_bytes: int) -> AsyncIterator[tuple[int, _HeadAndTail]]:
    """Yield a descriptor to write to and the output, which is complete when the context ends.

    With asyncio's own pipe, `process.wait()` would wait for every process that inherits the pipe.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    output = _HeadAndTail(keep_bytes)
    with ExitStack() as opened:
        read_end, write_end = os.pipe()
        writing = opened.enter_context(ExitStack())
        writing.callback(os.close, write_end)
        source = opened.enter_context(os.fdopen(read_end, "rb", buffering=0))
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
        opened.callback(transport.close)

        async def collect() -> None:
            while chunk := await reader.read(_CHUNK):
                output.add(chunk)

        pump = asyncio.create_task(collect())
        opened.callback(pump.cancel)
        with writing:
            yield write_end, output
        # All writers are dead by now, so the end is near; if one got away, it is not waited for.
        await asyncio.wait([pump], timeout=_DRAIN_SECONDS)


def _kill_marked(mark: str) -> None:
    """Kill processes that left the process group (`setsid`, daemons). Reads the environment of every process."""
    wanted = f"{_MARK}={mark}".encode()
    for _ in range(_SWEEPS):
        processes = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
        alive = [pid for pid in processes if wanted in _environment(pid)]
        if not alive:
            return
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    log.warning("process.survived", pids=alive)


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        # The process has ended, or belongs to another user.
        return []
