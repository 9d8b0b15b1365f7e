"""Starts a chat with the agent in this process or in a running gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agent.errors import NotFound
from agent.ids import new_id
from agent.messages import without_notes
from agent.untrusted import without_marks
from gateway.app import build_app
from gateway.cli import Options, load_config
from gateway.cli.chat_backend import GatewayGone, LocalChat
from gateway.cli.chat_single import ask
from gateway.cli.output import console, one_line, printable, show_progress
from gateway.commands import Commands
from gateway.config.loader import LoadedConfig, ensure_home
from gateway.errors import AlreadyRunning
from gateway.observability.logs import configure_logging
from gateway.store import open_store

if TYPE_CHECKING:
    from gateway.cli.gateway_client import ChatBackend

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
            last = "" if new_session else await _last_exchange(backend.conversation_id, loaded)
            chat = TerminalChat(backend, Commands.discover(), console(), history)
            await chat.run(new_session=new_session, last_exchange=last)

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
    from gateway.cli.gateway_client import RemoteChat, gateway_url  # noqa: PLC0415 - loads the HTTP client

    url = await asyncio.to_thread(gateway_url, loaded)
    if url is None:
        raise running
    backend = await stack.enter_async_context(RemoteChat.connect(loaded, url))
    try:
        await backend.open(name)
        # Raises NotFound if another Hermes, with another store, uses that port.
        async with open_store(loaded, read_only=True) as store:
            await store.sessions.conversation(backend.conversation_id)
    except (GatewayGone, NotFound):
        raise running from None
    return backend


async def _last_exchange(conversation_id: str, loaded: LoadedConfig) -> str:
    """Return the beginnings of the last question and answer; empty if the answer is still being written."""
    async with open_store(loaded, read_only=True) as store:
        conversation = await store.sessions.conversation(conversation_id)
        history = without_notes(await store.sessions.history(conversation.live_session_id))
    asked = next((message for message in reversed(history) if message.role == "user"), None)
    if asked is None or history[-1].role != "assistant" or history[-1].tool_calls:
        return ""
    answer = printable(without_marks(history[-1].content)).strip()
    if not answer:
        return ""
    shown = "\n".join(answer[:_MAX_ANSWER].splitlines()[:_MAX_ANSWER_LINES])
    more = "" if len(shown) == len(answer) else " …"
    return f"You: {one_line(without_marks(asked.content), _MAX_QUESTION)}\n\n{shown}{more}"
