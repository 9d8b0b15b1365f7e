"""Starts a chat with the agent in this process or in a running gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, redirect_stderr
from pathlib import Path
from typing import NamedTuple

import click

from agent.errors import NotFound
from agent.ids import new_id
from agent.messages import without_notes
from agent.store import SessionStore
from agent.untrusted import without_marks
from gateway.app import build_app
from gateway.cli import Options, load_config
from gateway.cli.chat_backend import ChatBackend, GatewayGone, LocalChat
from gateway.cli.chat_single import ask
from gateway.cli.gateway_client import gateway_url
from gateway.cli.output import console, one_line, printable, show_progress
from gateway.commands import Commands
from gateway.config.loader import LoadedConfig, ensure_home
from gateway.errors import AlreadyRunning
from gateway.observability.logs import configure_logging
from gateway.store import open_store

_MAX_LOG_BYTES = 1_000_000
_MAX_QUESTION = 200
_MAX_ANSWER_LINES = 12
_MAX_ANSWER = 1200


def run_chat(config_path: Path | None, name: str | None, *, new_session: bool) -> None:
    """Run an interactive chat until the person leaves."""
    from gateway.cli.chat_terminal import TerminalChat  # noqa: PLC0415 - a single question needs no prompt

    loaded = _prepare(config_path)
    history = loaded.home / "chat_history"
    history.touch(mode=0o600)

    async def run() -> None:
        async with _open_backend(loaded, name or "main") as backend:
            last = None if new_session else await _last_exchange(backend.conversation_id, loaded)
            chat = TerminalChat(backend, Commands.discover(), console(), history)
            await chat.run(new_session=new_session, last_exchange=str(last or ""))

    asyncio.run(run())


def run_single_question(
    config_path: Path | None, name: str | None, question: str, *, new_session: bool
) -> None:
    """Ask one question and wait for the answer; without a name, in a new conversation."""
    loaded = _prepare(config_path)

    async def run() -> None:
        async with _open_backend(loaded, name or new_id("once")) as backend:
            await ask(backend, question, new_session=new_session)

    asyncio.run(run())


def _prepare(config_path: Path | None) -> LoadedConfig:
    loaded = load_config(Options(config_path))
    ensure_home(loaded.home)
    _log_to_file(loaded)
    return loaded


def _log_to_file(loaded: LoadedConfig) -> None:
    """Log to `chat.log`, because the terminal shows the conversation."""
    path = loaded.home / "chat.log"
    path.touch(mode=0o600)
    mode = "w" if path.stat().st_size > _MAX_LOG_BYTES else "a"
    with redirect_stderr(path.open(mode, encoding="utf-8", buffering=1)):
        # The loggers keep the stream that is standard error now.
        configure_logging(loaded.config.logging.level, loaded.config.logging.format)


@asynccontextmanager
async def _open_backend(loaded: LoadedConfig, name: str) -> AsyncIterator[ChatBackend]:
    backend: ChatBackend
    async with AsyncExitStack() as stack:
        try:
            with show_progress():  # migrating a large store takes a while
                app = await stack.enter_async_context(build_app(loaded))
            for notice in app.gateway.plugins.notices:
                click.echo(f"hermes: {notice}", err=True)
            greeting = "\n".join(filter(None, [app.model_choice, app.model_line]))
            backend = LocalChat(app.gateway, greeting)
            await backend.open(name)
        except AlreadyRunning as running:
            backend = await _connect(stack, loaded, name, running)
        yield backend


async def _connect(
    stack: AsyncExitStack, loaded: LoadedConfig, name: str, running: AlreadyRunning
) -> ChatBackend:
    """Connect to the web API of the running gateway. Raises `running` if it cannot be reached."""
    from gateway.cli.chat_remote import RemoteChat  # noqa: PLC0415 - the HTTP client is needed only here

    web = loaded.config.platforms.web
    url = await asyncio.to_thread(gateway_url, loaded)
    if url is None:
        raise running
    token = web.token.get_secret_value() if web.token else None
    backend = await stack.enter_async_context(RemoteChat.connect(url, token))
    try:
        await backend.open(name)
        await _check_same_store(backend.conversation_id, loaded)
    except (GatewayGone, NotFound):
        raise running from None
    return backend


async def _last_exchange(conversation_id: str, loaded: LoadedConfig) -> Exchange | None:
    async with open_store(loaded, read_only=True) as store:
        return await last_exchange(store.sessions, conversation_id)


async def _check_same_store(conversation_id: str, loaded: LoadedConfig) -> None:
    """Raise NotFound if the conversation is in another store, because another Hermes uses that port."""
    async with open_store(loaded, read_only=True) as store:
        await store.sessions.conversation(conversation_id)


class Exchange(NamedTuple):
    """A question and its answer."""

    question: str
    answer: str

    def __str__(self) -> str:
        """Show the beginning of both."""
        lines = printable(self.answer).strip()[:_MAX_ANSWER].splitlines()[:_MAX_ANSWER_LINES]
        answer = "\n".join(lines)
        more = "" if len(answer) == len(printable(self.answer).strip()) else " …"
        return f"You: {one_line(self.question, _MAX_QUESTION)}\n\n{answer}{more}"


async def last_exchange(store: SessionStore, conversation_id: str) -> Exchange | None:
    """Return the last exchange of a conversation; None if it is empty or the answer is still being written."""
    conversation = await store.conversation(conversation_id)
    history = without_notes(await store.history(conversation.live_session_id))
    if not history or history[-1].role != "assistant" or history[-1].tool_calls:
        return None
    asked = next((message for message in reversed(history) if message.role == "user"), None)
    if asked is None or not history[-1].content.strip():
        return None
    return Exchange(without_marks(asked.content), without_marks(history[-1].content))
