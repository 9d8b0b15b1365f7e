"""The chat in the terminal: a prompt that is always there, the conversation above it."""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import Awaitable, Iterable
from contextlib import aclosing
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from rich.console import Console, RenderableType
from rich.text import Text

from agent.errors import HermesError
from agent.events import ApprovalAsked
from gateway.cli.chat_backend import ChatBackend, GatewayGone
from gateway.cli.chat_history import Exchange
from gateway.cli.chat_screen import ChatScreen
from gateway.cli.chat_text import CHOICES, CHOICES_PROMPT, NOT_A_CHOICE
from gateway.commands import Commands
from gateway.types import parse_command

_LEAVE = {"/exit": "leave this chat", "/quit": "leave this chat"}
_HOW = "Alt+Enter: new line · /help: commands · Ctrl-C: stop an answer · Ctrl-D: leave"
_PROMPT = "\x1b[1;36m›\x1b[0m "
_FRAME = 0.1
"""Seconds between two pictures of what is changing."""

_MENU_LINES = 8
"""Room for the list of commands."""

_REMEMBERED = 100
"""Own messages on their way; what comes back as an event and is not among them was written elsewhere."""

_TALLEST = 20
"""Lines of the changing part; the prompt draws them anew at every keystroke."""


class TerminalChat:
    """One sitting: until the person leaves or the gateway goes away."""

    def __init__(self, backend: ChatBackend, commands: Commands, console: Console, history: Path) -> None:
        self._backend = backend
        self._console = console
        self._screen = ChatScreen(console, self._print_above, self._was_mine)
        self._sent: deque[str] = deque(maxlen=_REMEMBERED)
        self._interrupted = asyncio.Event()
        self._prompt: PromptSession[str] = PromptSession(
            message=self._message,
            prompt_continuation="  ",
            multiline=True,
            history=FileHistory(history),
            completer=SlashCompleter(commands),
            reserve_space_for_menu=_MENU_LINES,
            complete_while_typing=Condition(lambda: self._prompt.default_buffer.text.startswith("/")),
            key_bindings=self._keys(),
        )

    async def run(self, *, new_session: bool = False, earlier: Exchange | None = None) -> None:
        """Returns when the person leaves. Raises GatewayGone."""
        self._greet(earlier)
        loop = asyncio.get_running_loop()
        # The prompt reads Ctrl-C as a key; between two prompts it is a signal.
        loop.add_signal_handler(signal.SIGINT, self._interrupted.set)
        work = (self._talk(new_session), self._watch(), self._animate(), self._obey_interrupts())
        tasks = [asyncio.create_task(each) for each in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._screen.flush()
            loop.remove_signal_handler(signal.SIGINT)

    def _greet(self, earlier: Exchange | None) -> None:
        self._console.print(Text(self._backend.greeting))
        self._console.print(Text(_HOW, "dim"), end="\n\n")
        if earlier:
            self._console.print(Text(str(earlier), "dim"), end="\n\n")

    # -- what runs side by side ------------------------------------------------------------------------------

    async def _talk(self, new_session: bool) -> None:
        if new_session:
            await self._send("/reset")
        while (text := await self._read()) is not None:
            self._screen.prompted()
            if text in _LEAVE:
                return
            if (asked := self._screen.asked) and parse_command(text) is None:
                await self._decide(asked, text)
            else:
                await self._send(text)

    async def _watch(self) -> None:
        async with aclosing(self._backend.events()) as events:
            async for event in events:
                self._screen.show(event)

    async def _animate(self) -> None:
        while True:
            await asyncio.sleep(_FRAME)
            if self._screen.running:
                self._prompt.app.invalidate()

    async def _obey_interrupts(self) -> None:
        """Ctrl-C ends the answer, or else clears what was typed, or else says how to leave."""
        while await self._interrupted.wait():
            self._interrupted.clear()
            if self._screen.running:
                await self._backend.stop()
            elif self._prompt.default_buffer.text:
                self._prompt.default_buffer.reset()
            else:
                self._screen.say("Ctrl-D or /exit leaves.")

    async def _read(self) -> str | None:
        """What the person enters; None when they leave with Ctrl-D."""
        try:
            return (await self._prompt.prompt_async(handle_sigint=False)).strip()
        except EOFError:
            return None

    async def _send(self, text: str) -> None:
        # Noted first: the event that answers it may arrive before `send` returns.
        self._sent.append(text)
        await self._handed_over(self._backend.send(text))

    async def _decide(self, asked: ApprovalAsked, text: str) -> None:
        if choice := CHOICES.get(text.lower()):
            # What came of it is told by an event, also where somebody was faster in another window.
            await self._handed_over(self._backend.decide(asked.approval_id, choice))
        else:
            self._screen.say(NOT_A_CHOICE)

    async def _handed_over(self, request: Awaitable[object]) -> None:
        """Says why, if only this was refused."""
        try:
            await request
        except GatewayGone:
            raise
        except HermesError as error:
            self._screen.say(str(error))

    def _was_mine(self, text: str) -> bool:
        """Whether a message that is taken up now was entered here, and not in another window."""
        if text not in self._sent:
            return False
        self._sent.remove(text)
        return True

    # -- the prompt ------------------------------------------------------------------------------------------

    def _message(self) -> ANSI:
        app = self._prompt.app
        prompt = f"{CHOICES_PROMPT}{_PROMPT}" if self._screen.asked else _PROMPT
        if app.is_done:  # what was entered stays in the scrollback, what was changing does not
            return ANSI(f"\n{prompt}" if self._screen.running else prompt)
        size = app.output.get_size()
        live = self._screen.live(size.columns, min(size.rows - self._prompt_height(), _TALLEST))
        return ANSI(f"{live}\n{prompt}" if live else prompt)

    def _prompt_height(self) -> int:
        """Lines that the changing part must leave free."""
        buffer = self._prompt.default_buffer
        return 2 + max(buffer.document.line_count, _MENU_LINES if buffer.complete_while_typing() else 0)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            if event.current_buffer.text.strip():
                event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.newline(copy_margin=False)

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            self._interrupted.set()

        return keys

    def _print_above(self, *renderables: RenderableType) -> None:
        """The prompt makes room and is drawn again. The terminal stays in its hands meanwhile: a key that is
        pressed now is read by the prompt, and neither echoed into the answer nor lost."""
        app = self._prompt.app
        if app.is_running:
            app.renderer.erase()
        for renderable in renderables:
            self._console.print(renderable)
        app.invalidate()


class SlashCompleter(Completer):
    """Completes the name of a command at the beginning of the input."""

    def __init__(self, commands: Commands) -> None:
        self._summaries = _LEAVE | {
            f"/{name}": command.summary
            for command in commands.all
            for name in (command.name, *command.aliases)
        }

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        typed = document.text_before_cursor
        if not typed.startswith("/") or any(character.isspace() for character in typed):
            return
        for name, summary in sorted(self._summaries.items()):
            if name.startswith(typed.lower()):
                yield Completion(name, start_position=-len(typed), display_meta=summary)
