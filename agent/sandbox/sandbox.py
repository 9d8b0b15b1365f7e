"""Runs a command in a bubblewrap sandbox, which shows it the conversation's workspace and no other file of the owner.

When a run ends, every process of it is gone: they have a namespace, and the kernel ends them with its first process.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from contextlib import ExitStack, suppress
from dataclasses import astuple, dataclass
from pathlib import Path

from agent.errors import SandboxNotAvailable
from agent.sandbox.bubblewrap import GROUP, PASSWD, PATH, Descriptors, Limits, bubblewrap, syscall_filter
from agent.sandbox.process import Finished, run_process

_SECONDS_BETWEEN_LOOKS = 0.2
_MEGABYTE = 1 << 20
_OTHERWISE = "or, if commands may do everything that Hermes may, set `tools.sandbox.mode: off`"


@dataclass(frozen=True, slots=True)
class Ran:
    """The end of a command in the sandbox."""

    finished: Finished
    too_much_memory: bool
    """The command was killed for that."""


@dataclass(frozen=True, slots=True)
class Sandbox(Limits):
    """Runs commands within limits."""

    seconds: int = 600
    program: str = "bwrap"

    async def run(self, command: str, workspace: Path, *, seconds: float) -> Ran:
        """Run a command. Raises SandboxNotAvailable, before anything was run, if there can be no sandbox."""
        with ExitStack() as opened:
            report = _Report(opened)
            calls = syscall_filter()
            given = Descriptors(
                report.written_to,
                _readable(PASSWD.encode(), opened),
                _readable(GROUP.encode(), opened),
                _readable(calls, opened) if calls else None,
            )
            arguments = await asyncio.to_thread(self._command_line, command, workspace, given)
            watching = asyncio.create_task(self._watch(report))
            try:
                finished = await run_process(
                    arguments,
                    cwd=workspace,
                    env={"PATH": PATH},
                    seconds=min(seconds, self.seconds),
                    pass_fds=[number for number in astuple(given) if number is not None],
                    end=report.end_everything,
                )
            finally:
                watching.cancel()
                await asyncio.wait([watching])
            if finished.exit_code is not None and not report.has_run:
                raise SandboxNotAvailable(_why_not(finished.output))
            return Ran(finished, too_much_memory=not watching.cancelled() and watching.result())

    async def try_out(self, folder: Path) -> None:
        """Check the sandbox with a command in this folder. Raises SandboxNotAvailable."""
        ran = await self.run("echo $((6 * 7))", folder, seconds=20)
        if ran.finished.output != b"42\n":
            raise SandboxNotAvailable(_why_not(ran.finished.output))

    def _command_line(self, command: str, workspace: Path, given: Descriptors) -> list[str]:
        program = shutil.which(self.program, path=PATH)
        if program is None:
            raise SandboxNotAvailable(
                "bubblewrap is not installed. Install it (Debian, Ubuntu: `apt install bubblewrap`; Fedora: "
                f"`dnf install bubblewrap`), {_OTHERWISE}."
            )
        return bubblewrap(program, command, workspace, self, given)

    async def _watch(self, report: _Report) -> bool:
        """Return True after ending the command because its processes together used too much memory."""
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
            first = report.first_process
            if first and await asyncio.to_thread(memory_used, first) > self.memory_mb * _MEGABYTE:
                report.end_everything()
                return True


class _Report:
    """Status output of bubblewrap, a JSON object per line: its first process, and the exit code of a command that
    was run."""

    def __init__(self, opened: ExitStack) -> None:
        self._read_from, self.written_to = os.pipe()
        opened.callback(os.close, self._read_from)
        opened.callback(os.close, self.written_to)
        os.set_blocking(self._read_from, False)
        self._text = b""

    @property
    def first_process(self) -> int | None:
        pid = self._said("child-pid")
        return int(pid) if pid is not None else None

    @property
    def has_run(self) -> bool:
        return self._said("exit-code") is not None

    def end_everything(self) -> bool:
        """Bubblewrap itself ends when all others have. False where it has not made the first process yet."""
        first = self.first_process
        if first is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(first, signal.SIGKILL)
        return True

    def _said(self, name: str) -> int | None:
        with suppress(BlockingIOError):
            self._text += os.read(self._read_from, 65_536)
        # The last piece is empty, or a line that is not complete yet.
        for line in self._text.split(b"\n")[:-1]:
            value: int | None = json.loads(line).get(name)
            if value is not None:
                return value
        return None


def _readable(data: bytes, opened: ExitStack) -> int:
    """Return a descriptor to read the data from. A pipe holds it all, so writing does not block."""
    read_from, write_to = os.pipe()
    opened.callback(os.close, read_from)
    os.set_blocking(write_to, False)
    os.write(write_to, data)
    os.close(write_to)
    return read_from


def _why_not(output: bytes) -> str:
    said = " ".join(output.decode(errors="replace").split())[:300] or "it said nothing"
    return (
        f"bubblewrap could not start ({said}). It must be version 0.8 or newer, and ordinary users must be allowed to "
        f"make user namespaces: docs/sandbox.md says how. Mend that, {_OTHERWISE}."
    )


_PAGE = os.sysconf("SC_PAGE_SIZE")


def memory_used(first_process: int) -> int:
    """Return the memory of the sandbox in bytes, with its file systems in memory; 0 if it is gone.

    Counts the processes that its first process sees.
    """
    root = Path(f"/proc/{first_process}/root")
    used = sum(map(_stored, (root / "tmp", root / "dev/shm")))
    with suppress(OSError):
        used += sum(_share(entry) for entry in (root / "proc").iterdir() if entry.name.isdigit())
    return used


def _share(process: Path) -> int:
    """Return a process's share of memory: pages shared with others count in part."""
    with suppress(OSError):
        lines = (process / "smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(("Pss:", "SwapPss:"))) * 1024
    with suppress(OSError, IndexError):  # shared pages count in full where the kernel does not tell the share
        return int((process / "statm").read_text().split()[1]) * _PAGE
    return 0


def _stored(folder: Path) -> int:
    try:
        system = os.statvfs(folder)
    except OSError:
        return 0
    return (system.f_blocks - system.f_bfree) * system.f_frsize
