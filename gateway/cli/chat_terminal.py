"""The interactive chat in the terminal: a prompt at the bottom and the conversation above it."""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import Awaitable, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

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
from agent.tool import Choice
from gateway.cli.chat_backend import GatewayGone
from gateway.cli.chat_screen import ChatScreen
from gateway.commands import Commands
from gateway.types import parse_command

if TYPE_CHECKING:
    from gateway.cli.gateway_client import ChatBackend

_DECISIONS: tuple[Choice, ...] = ("once", "conversation", "deny")
_CHOICES = {typed: choice for choice in _DECISIONS for typed in (choice[0], choice)}
"""Accepted input. “yes” is not accepted: it does not say for how long."""

_CHOICES_PROMPT = "[o]nce, this [c]onversation, [d]eny "
_NOT_A_CHOICE = "First type o, c or d and press Enter; the up arrow brings your text back."

_EXIT_COMMANDS = {"/exit": "leave this chat", "/quit": "leave this chat"}
_HINT = "Alt+Enter: new line · /help: commands · Ctrl-C: stop an answer · Ctrl-D: leave"
_PROMPT = "\x1b[1;36m›\x1b[0m "
_FRAME_SECONDS = 0.1

_MENU_LINES = 8
"""Lines reserved for the list of commands."""

_MAX_SENT = 100
"""Sent messages to remember; the event of any other message comes from another window."""

_MAX_LIVE_LINES = 20
"""Lines of the live part, which the prompt redraws at every keystroke."""


class TerminalChat:
    """An interactive chat that lasts until the person leaves or the gateway stops."""

    def __init__(self, backend: ChatBackend, commands: Commands, console: Console, history: Path) -> None:
        self._backend = backend
        self._console = console
        self._screen = ChatScreen(console, self._print_above, self._forget_sent)
        self._sent: deque[str] = deque(maxlen=_MAX_SENT)
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

    async def run(self, *, new_session: bool = False, last_exchange: str = "") -> None:
        """Run until the person leaves. Raises GatewayGone."""
        self._greet(last_exchange)
        loop = asyncio.get_running_loop()
        # The prompt reads Ctrl-C as a key; between two prompts Ctrl-C is a signal.
        loop.add_signal_handler(signal.SIGINT, self._interrupted.set)
        work = (self._read_input(new_session), self._watch(), self._animate(), self._handle_interrupts())
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

    def _greet(self, last_exchange: str) -> None:
        self._console.print(Text(self._backend.greeting))
        self._console.print(Text(_HINT, "dim"), end="\n\n")
        if last_exchange:
            self._console.print(Text(last_exchange, "dim"), end="\n\n")

    # -- concurrent tasks ------------------------------------------------------------------------------------

    async def _read_input(self, new_session: bool) -> None:
        if new_session:
            await self._send("/reset")
        while (text := await self._read()) is not None:
            self._screen.prompted()
            if text in _EXIT_COMMANDS:
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
            await asyncio.sleep(_FRAME_SECONDS)
            if self._screen.running:
                self._prompt.app.invalidate()

    async def _handle_interrupts(self) -> None:
        """On Ctrl-C, stop the answer; without one, clear the input; without input, say how to leave."""
        while await self._interrupted.wait():
            self._interrupted.clear()
            if self._screen.running:
                await self._backend.stop()
            elif self._prompt.default_buffer.text:
                self._prompt.default_buffer.reset()
            else:
                self._screen.show_notice("Press Ctrl-D or enter /exit to leave.")

    async def _read(self) -> str | None:
        """Return the entered text; None for Ctrl-D."""
        try:
            return (await self._prompt.prompt_async(handle_sigint=False)).strip()
        except EOFError:
            return None

    async def _send(self, text: str) -> None:
        # Before sending: its event may arrive before `send` returns.
        self._sent.append(text)
        await self._request(self._backend.send(text))

    async def _decide(self, asked: ApprovalAsked, text: str) -> None:
        if choice := _CHOICES.get(text.lower()):
            # An event reports the outcome, also of a decision in another window.
            await self._request(self._backend.decide(asked.approval_id, choice))
        else:
            self._screen.show_notice(_NOT_A_CHOICE)

    async def _request(self, request: Awaitable[object]) -> None:
        """Await a request and show why it was refused."""
        try:
            await request
        except GatewayGone:
            raise
        except HermesError as error:
            self._screen.show_notice(str(error))

    def _forget_sent(self, text: str) -> bool:
        """Forget a sent message; return False for a message of another window."""
        if text not in self._sent:
            return False
        self._sent.remove(text)
        return True

    # -- the prompt ------------------------------------------------------------------------------------------

    def _message(self) -> ANSI:
        app = self._prompt.app
        prompt = f"{_CHOICES_PROMPT}{_PROMPT}" if self._screen.asked else _PROMPT
        if app.is_done:  # entered text stays in the scrollback, the live part does not
            return ANSI(f"\n{prompt}" if self._screen.running else prompt)
        size = app.output.get_size()
        live = self._screen.live(size.columns, min(size.rows - self._prompt_height(), _MAX_LIVE_LINES))
        return ANSI(f"{live}\n{prompt}" if live else prompt)

    def _prompt_height(self) -> int:
        """Return the number of lines that the live part must leave free."""
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
        """Print above the prompt, which is erased and redrawn. The prompt keeps the terminal: a key pressed meanwhile
        is neither echoed into the answer nor lost."""
        app = self._prompt.app
        if app.is_running:
            app.renderer.erase()
        for renderable in renderables:
            self._console.print(renderable)
        app.invalidate()


class SlashCompleter(Completer):
    """Completes the name of a command at the beginning of the input."""

    def __init__(self, commands: Commands) -> None:
        self._summaries = _EXIT_COMMANDS | {
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
