"""A person at a terminal: a real pseudo-terminal, and the screen they would see on it, scrollback included."""

from __future__ import annotations

import asyncio
import codecs
import fcntl
import os
import pty
import re
import signal
import struct
import termios
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from wcwidth import wcwidth

from tests.support.warm import Process, spawn

PATIENCE = 30.0
"""Seconds until something awaited on the screen counts as missing."""

_SEQUENCE = re.compile(
    r"\x1b\[([?>]?)([\d;]*)[ ]?([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()]?.|[\s\S]"
)


_UNFINISHED = re.compile(r"\x1b(?:\[[?>]?[\d;]*[ ]?|\][^\x07\x1b]*\x1b?|[()])?\Z")


class Screen:
    """The part of a VT100 that line editors use: text, wrapping, cursor movement and erasing."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self._lines: list[list[str]] = [[]]
        self._row = self._column = 0
        self._held = ""

    @property
    def text(self) -> str:
        """Everything since the beginning, also what has scrolled out of the window."""
        return "\n".join("".join(line).rstrip() for line in self._lines).rstrip("\n")

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    def feed(self, output: str) -> None:
        output = self._held + output
        cut = _UNFINISHED.search(output)
        self._held = cut[0] if cut else ""
        for found in _SEQUENCE.finditer(output.removesuffix(self._held)):
            private, parameters, final = found.groups()
            if final and not private:
                self._control(final, [int(number or 0) for number in parameters.split(";")])
            elif len(found[0]) == 1:
                self._write(found[0])

    def _control(self, final: str, parameters: list[int]) -> None:
        count = max(1, parameters[0])
        if final == "A":
            self._row = max(self._top, self._row - count)
        elif final == "B":
            self._row = min(self._top + self.rows - 1, self._row + count)
        elif final == "C":
            self._column = min(self.columns - 1, self._column + count)
        elif final == "D":
            self._column = max(0, self._column - count)
        elif final == "K":
            del self._line[self._column :]
        elif final == "J" and parameters[0] == 0:
            del self._line[self._column :]
            del self._lines[self._row + 1 :]
        elif final not in "mnq":
            raise NotImplementedError(f"this screen does not know CSI {parameters} {final}")

    def _write(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._row += 1
        elif character == "\b":
            self._column = max(0, self._column - 1)
        elif (width := wcwidth(character)) > 0:
            if self._column + width > self.columns:
                self._row, self._column = self._row + 1, 0
            line = self._line
            line.extend(" " * (self._column + width - len(line)))
            line[self._column : self._column + width] = [character, *[""] * (width - 1)]
            self._column += width

    @property
    def _line(self) -> list[str]:
        while len(self._lines) <= self._row:
            self._lines.append([])
        return self._lines[self._row]

    @property
    def _top(self) -> int:
        return max(0, len(self._lines) - self.rows)


class Terminal:
    """A program in a window of its own."""

    def __init__(self, process: Process, master: int, screen: Screen) -> None:
        self._process = process
        self._master = master
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._changed = asyncio.Event()
        self.screen = screen

    @classmethod
    @asynccontextmanager
    async def run(
        cls, *command: str, env: Mapping[str, str], rows: int = 24, columns: int = 80
    ) -> AsyncIterator[Terminal]:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        # Asking for the cursor's position is optional, and this terminal would not answer.
        env = {**env, "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"}
        process = await spawn(
            *command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True
        )
        os.close(slave)
        terminal = cls(process, master, Screen(rows, columns))
        loop = asyncio.get_running_loop()
        loop.add_reader(master, terminal._read)
        try:
            yield terminal
        finally:
            loop.remove_reader(master)
            if process.returncode is None:
                process.kill()
            await process.wait()
            os.close(master)

    def type(self, keys: str) -> None:
        """Enter is `\\r`, Ctrl-C `\\x03`, Ctrl-D `\\x04`, Alt+Enter `\\x1b\\r`."""
        os.write(self._master, keys.encode())

    def interrupt(self) -> None:
        """Ctrl-C for a program that does not read the keys itself: the terminal makes a signal of it."""
        self._process.send_signal(signal.SIGINT)

    async def until(self, wanted: str | Callable[[Screen], bool]) -> None:
        """Waits for text, or for a condition, on the screen."""
        condition = (lambda screen: wanted in screen.text) if isinstance(wanted, str) else wanted
        try:
            async with asyncio.timeout(PATIENCE):
                while not condition(self.screen):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{wanted!r} did not come. The screen:\n{self.screen.text}") from None

    async def ended(self) -> int:
        """The exit code."""
        async with asyncio.timeout(PATIENCE):
            return await self._process.wait()

    def _read(self) -> None:
        try:
            output = os.read(self._master, 65536)
        except OSError:  # the program has closed the terminal
            asyncio.get_running_loop().remove_reader(self._master)
            return
        self.screen.feed(self._decoder.decode(output))
        self._changed.set()
