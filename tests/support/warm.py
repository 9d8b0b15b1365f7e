"""Starts `hermes` as a process of its own that finds its modules already imported; see `warm_server.py`.

Nothing but that is left out. A test about the start itself uses `subprocess`. With HERMES_TEST_COLD=1, and where the
system is not Linux, every start is an ordinary one.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

from tests.support.privileges import become_ordinary

HERMES = (sys.executable, "-m", "gateway.cli")

_WARM = sys.platform == "linux" and not os.environ.get("HERMES_TEST_COLD")
_ROOT = Path(__file__).parents[2]
_PATIENCE = 110
"""Seconds that a command may take."""
_one_at_a_time = threading.Lock()


class WarmProcess:
    """The part of `asyncio.subprocess.Process` that tests use."""

    def __init__(self, pid: int, told: asyncio.StreamReader, caller: asyncio.StreamWriter) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin: IO[bytes] | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self._end = asyncio.create_task(self._hear_of_the_end(told, caller))

    async def wait(self) -> int:
        return await asyncio.shield(self._end)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def communicate(self, typed: bytes = b"") -> tuple[bytes, bytes]:
        if self.stdin and not self.stdin.closed:
            self.stdin.write(typed)
            self.stdin.close()
        stdout = asyncio.create_task(self.stdout.read()) if self.stdout else None
        stderr = await self.stderr.read() if self.stderr else b""
        await self.wait()
        return await stdout if stdout else b"", stderr

    async def _hear_of_the_end(self, told: asyncio.StreamReader, caller: asyncio.StreamWriter) -> int:
        try:
            self.returncode = int(await told.readline())
            return self.returncode
        finally:
            caller.close()


Process = asyncio.subprocess.Process | WarmProcess


async def spawn(*command: str, **how: Any) -> Process:
    """`asyncio.create_subprocess_exec`, by which Hermes starts warm."""
    if _WARM and command[: len(HERMES)] == HERMES:
        return await _spawn_warm(command[len(HERMES) :], **how)
    return await asyncio.create_subprocess_exec(*command, **how)


def run(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, typed: str = "", ordinary: bool = False
) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` that keeps the output as text, by which Hermes starts warm.

    `ordinary`: file permissions bind it, also where the tests run as root.
    """
    if _WARM and tuple(command[: len(HERMES)]) == HERMES:
        return _run_warm(command[len(HERMES) :], env or os.environ, typed, ordinary)
    bound = become_ordinary if ordinary else None
    return subprocess.run(
        command, env=env, input=typed, preexec_fn=bound, capture_output=True, text=True, timeout=_PATIENCE
    )


async def _spawn_warm(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
    start_new_session: bool = False,
) -> WarmProcess:
    theirs: list[int] = []
    ours: dict[int, int] = {}
    nothing = os.open(os.devnull, os.O_RDWR)
    special = {subprocess.DEVNULL: nothing}
    for number, wish in enumerate((stdin, stdout, stderr)):
        if wish == subprocess.PIPE:
            reading, writing = os.pipe()
            their, ours[number] = (writing, reading) if number else (reading, writing)
        else:
            their = theirs[1] if wish == subprocess.STDOUT else special.get(wish, wish)
        theirs.append(their)
    answer = _ask(theirs, arguments, env, new_session=start_new_session)
    for descriptor in (nothing, *(theirs[number] for number in ours)):
        os.close(descriptor)
    told, caller = await asyncio.open_connection(sock=answer)
    process = WarmProcess(int(await told.readline()), told, caller)
    process.stdin = os.fdopen(ours[0], "wb", 0) if 0 in ours else None
    process.stdout, process.stderr = [await _reader(ours.get(number)) for number in (1, 2)]
    return process


async def _reader(descriptor: int | None) -> asyncio.StreamReader | None:
    if descriptor is None:
        return None
    reader = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb", 0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


def _run_warm(
    arguments: Sequence[str], env: Mapping[str, str], typed: str, ordinary: bool
) -> subprocess.CompletedProcess[str]:
    stdin, writing = os.pipe()
    os.write(writing, typed.encode())
    os.close(writing)
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        answer = _ask([stdin, stdout.fileno(), stderr.fileno()], arguments, env, ordinary=ordinary)
        os.close(stdin)
        answer.settimeout(_PATIENCE)
        with answer, answer.makefile() as lines:
            pid = int(lines.readline())
            try:
                code = int(lines.readline())
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(arguments, code, stdout.read(), stderr.read())


def _ask(
    streams: Sequence[int],
    arguments: Sequence[str],
    env: Mapping[str, str],
    *,
    new_session: bool = False,
    ordinary: bool = False,
) -> socket.socket:
    """Where the new process's id can be read, and at its end its exit code."""
    with _one_at_a_time:
        control, _ = _server()
    ours, theirs = socket.socketpair()
    with theirs:
        socket.send_fds(control, [b"?"], [theirs.fileno(), *streams])
    request = {
        "arguments": list(arguments),
        "environment": dict(env),
        "directory": str(Path.cwd()),
        "new_session": new_session,
        "ordinary": ordinary,
    }
    ours.sendall(json.dumps(request).encode() + b"\n")
    return ours


@cache
def _server() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """One for this process; it ends when the socket is closed."""
    ours, theirs = socket.socketpair()
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.support.warm_server", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            cwd=_ROOT,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
    return ours, server
