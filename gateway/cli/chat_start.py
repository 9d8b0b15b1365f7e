"""Brings a chat and the agent together: the agent runs here, or in a gateway that is already running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, redirect_stderr
from pathlib import Path

import click

from agent.errors import NotFound
from agent.ids import new_id
from gateway.app import build_app
from gateway.cli import Options, loaded_for
from gateway.cli.chat_backend import ChatBackend, GatewayGone, LocalChat
from gateway.cli.chat_history import Exchange, last_exchange
from gateway.cli.chat_single import ask
from gateway.cli.gateway_client import address
from gateway.cli.output import console
from gateway.cli.progress import progress_shown
from gateway.commands import Commands
from gateway.config.loader import LoadedConfig, ensure_home
from gateway.errors import AlreadyRunning
from gateway.observability.logs import configure_logging
from gateway.store import open_store

_LONGEST_LOG = 1_000_000


def converse(config_path: Path | None, name: str | None, *, new_session: bool) -> None:
    """Until the person leaves."""
    from gateway.cli.chat_terminal import TerminalChat  # noqa: PLC0415 - a single question needs no prompt

    loaded = _prepared(config_path)
    history = loaded.home / "chat_history"
    history.touch(mode=0o600)

    async def run() -> None:
        async with _opened(loaded, name or "main") as backend:
            earlier = None if new_session else await _earlier(backend.conversation_id, loaded)
            chat = TerminalChat(backend, Commands.discover(), console(), history)
            await chat.run(new_session=new_session, earlier=earlier)

    asyncio.run(run())


def ask_once(config_path: Path | None, name: str | None, question: str, *, new_session: bool) -> None:
    """Until the answer is complete. Without a name, nothing said before is part of it."""
    loaded = _prepared(config_path)

    async def run() -> None:
        async with _opened(loaded, name or new_id("once")) as backend:
            await ask(backend, question, new_session=new_session)

    asyncio.run(run())


def _prepared(config_path: Path | None) -> LoadedConfig:
    loaded = loaded_for(Options(config_path))
    ensure_home(loaded.home)
    _log_to_file(loaded)
    return loaded


def _log_to_file(loaded: LoadedConfig) -> None:
    """The terminal belongs to the conversation: what would be logged there goes into `chat.log`."""
    path = loaded.home / "chat.log"
    path.touch(mode=0o600)
    mode = "w" if path.stat().st_size > _LONGEST_LOG else "a"
    with redirect_stderr(path.open(mode, encoding="utf-8", buffering=1)):
        # The loggers take hold of the stream now and keep it.
        configure_logging(loaded.config.logging.level, loaded.config.logging.format)


@asynccontextmanager
async def _opened(loaded: LoadedConfig, name: str) -> AsyncIterator[ChatBackend]:
    backend: ChatBackend
    async with AsyncExitStack() as stack:
        try:
            with progress_shown():  # a large store may have to be brought up to date
                hermes = await stack.enter_async_context(build_app(loaded))
            for notice in hermes.gateway.plugins.notices:
                click.echo(f"hermes: {notice}", err=True)
            greeting = "\n".join(filter(None, [hermes.model_choice, hermes.model_line]))
            backend = LocalChat(hermes.gateway, greeting)
            await backend.open(name)
        except AlreadyRunning as running:
            backend = await _connected(stack, loaded, name, running)
        yield backend


async def _connected(
    stack: AsyncExitStack, loaded: LoadedConfig, name: str, running: AlreadyRunning
) -> ChatBackend:
    """The running gateway, over its web API. Raises `running` where that cannot be reached."""
    from gateway.cli.chat_remote import RemoteChat  # noqa: PLC0415 - the HTTP client is needed only here

    web = loaded.config.platforms.web
    url = await asyncio.to_thread(address, loaded)
    if url is None:
        raise running
    token = web.token.get_secret_value() if web.token else None
    backend = await stack.enter_async_context(RemoteChat.connect(url, token))
    try:
        await backend.open(name)
        await _check_it_is_ours(backend.conversation_id, loaded)
    except (GatewayGone, NotFound):
        raise running from None
    return backend


async def _earlier(conversation_id: str, loaded: LoadedConfig) -> Exchange | None:
    async with open_store(loaded, read_only=True) as store:
        return await last_exchange(store.sessions, conversation_id)


async def _check_it_is_ours(conversation_id: str, loaded: LoadedConfig) -> None:
    """Raises NotFound if that conversation is in another store: then another Hermes answers on that port."""
    async with open_store(loaded, read_only=True) as store:
        await store.sessions.conversation(conversation_id)
