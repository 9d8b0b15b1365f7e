"""A person at a terminal: `hermes chat` in a pseudo-terminal, beside the Hermes that runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from tests.contract.platforms.harness import ContractHarness
from tests.contract.platforms.surface import Person, Shown
from tests.support.hermes_process import environment
from tests.support.terminal import Screen, Terminal

ROWS, COLUMNS = 50, 120
BEGINS = "A new session begins."
RUNNING = "Ctrl-C stops"
PROMPT = "›"
CHOICES = "[o]nce, this [c]onversation, [d]eny"
LETTERS = {"Once": "o", "This conversation": "c", "Deny": "d"}


class TerminalPerson(Person):
    waiting = "↳ queued"
    steering = "↳ queued for the next step"

    def __init__(self, name: str, terminal: Terminal) -> None:
        self.name = name
        self._terminal = terminal
        self._top = 0

    async def begins_anew(self) -> None:
        """All scenarios share the screen; only lines below this mark count."""
        begun = self._screen.text.count(BEGINS)
        self._terminal.type("/new\r")
        await self.until(lambda: self._screen.text.count(BEGINS) > begun)
        self._top = 1 + max(at for at, line in enumerate(self._screen.lines) if BEGINS in line)

    async def says(self, text: str, *, to_bot: bool = True, reply_to: Any = None) -> None:
        self._terminal.type(text.replace("\n", "\x1b\r") + "\r")

    async def presses(self, shown: Shown, label: str) -> str:
        """Type the letter of the choice and return the printed result: a terminal has no buttons."""
        await self.says(shown.buttons[label])
        return ""

    def messages(self) -> list[Shown]:
        lines = self._screen.lines[self._top :]
        text = "\n".join(line for line in lines if not line.startswith(PROMPT)).strip("\n")
        is_asked = CHOICES in (lines[-1] if lines else "")
        return [Shown(text, is_growing=RUNNING in text, buttons=LETTERS if is_asked else {})]

    async def until(self, condition: Callable[[], bool]) -> None:
        await self._terminal.until(lambda _: condition())

    async def sees_bold(self, words: str) -> bool:
        """This screen knows no colours: that the marks are gone must do."""
        text = self.visible()[0]
        return words in text and f"*{words}" not in text

    @property
    def _screen(self) -> Screen:
        return self._terminal.screen


class TerminalSurface:
    """One window for all scenarios: a window costs a process."""

    name = "terminal"
    limit = 100_000

    def __init__(self, harness: ContractHarness, stack: AsyncExitStack) -> None:
        self._harness = harness
        self._stack = stack
        self._terminal: Terminal | None = None

    def size(self, text: str) -> int:
        return len(text)

    async def person(self, name: str = "Ada") -> TerminalPerson:
        self._terminal = self._terminal or await self._opened()
        person = TerminalPerson(name, self._terminal)
        await person.begins_anew()
        return person

    async def _opened(self) -> Terminal:
        hermes = self._harness.hermes
        command = [sys.executable, "-m", "gateway.cli", "--config", str(hermes.config_path), "chat"]
        window = Terminal.run(*command, env=environment(hermes.home), rows=ROWS, columns=COLUMNS)
        terminal = await self._stack.enter_async_context(window)
        await terminal.until("Ctrl-D: leave")
        return terminal
