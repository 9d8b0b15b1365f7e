"""Harness: a chat receiver with a gateway, a scripted model and an in-memory chat service."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.store import Conversation
from agent.testing import ScriptedLLM
from agent.tool import ToolContext, tool
from gateway.access import Gate, Pairing
from gateway.chat.receiver import ChatReceiver
from gateway.config.schema_platforms import TelegramBotConfig
from gateway.core.gateway import Gateway
from gateway.core.turns import Busy
from gateway.media.attachments import AttachmentReader
from gateway.store.sqlite.store import SqliteStore
from gateway.types import Author, ChatMessage, Place
from tests.support.agents import make_agent
from tests.support.chat_service import ChatService
from tests.support.gateways import make_gateway
from tests.support.stores import temporary_store
from tests.support.watch import until

ANNA, BOB, CARL = Author("1", "Anna"), Author("2", "Bob"), Author("3", "Carl")
GROUP = Place("-100", kind="group", group_id="-100")


@tool(dangerous=True)
async def danger(ctx: ToolContext) -> str:
    """Something that a person has to approve."""
    return "done"


_message_ids = itertools.count(1)


def make_receiver(
    gateway: Gateway,
    service: ChatService,
    settings: dict[str, Any],
    *,
    sees: bool = False,
    join_seconds: float = 0.05,
    closing_seconds: float = 5.0,
) -> ChatReceiver:
    """Make the receiver of a bot and register it; `sees`: whether the model sees images."""

    async def sees_images(conversation: Conversation) -> bool:
        return sees

    config = TelegramBotConfig.model_validate(settings)
    receiver = ChatReceiver(
        gateway,
        service,
        gateway.access.add(Gate(service.platform, config, gateway.store.access)),
        Pairing(gateway.store.access),
        AttachmentReader(sees_images),
        config,
        join_seconds=join_seconds,
        closing_seconds=closing_seconds,
    )
    gateway.bots[service.platform] = receiver
    return receiver


class Bot:
    """A chat receiver and the people who write to it."""

    def __init__(
        self,
        store: SqliteStore,
        folder: Path,
        *answers: Any,
        service: ChatService | None = None,
        busy: Busy = "queue",
        sees: bool = True,
        join_seconds: float = 0.05,
        **settings: Any,
    ) -> None:
        self.store, self.llm, self.service = store, ScriptedLLM(list(answers)), service or ChatService()
        agent = make_agent(self.llm, self.store.sessions, [danger])
        self.gateway = make_gateway(agent, self.store, folder, config={"gateway": {"busy": busy}})
        self.pairing = Pairing(self.store.access)
        access = {"allowed_users": [1, 2], "allowed_groups": [-100, -500], **settings}
        self.receiver = make_receiver(
            self.gateway, self.service, access, sees=sees, join_seconds=join_seconds, closing_seconds=0.5
        )

    async def hears(
        self, text: str, author: Author = ANNA, place: Place | None = None, **more: Any
    ) -> ChatMessage:
        message = ChatMessage(str(next(_message_ids)), place or Place(author.id), author, text, **more)
        await self.receiver.message(message)
        return message

    async def edit(self, message: ChatMessage, text: str, **more: Any) -> None:
        await self.receiver.edited(replace(message, text=text, **more))

    async def asked(self, count: int) -> list[str]:
        """Wait for this many requests to the model; return the user messages of the newest."""
        await until(lambda: len(self.llm.requests) >= count)
        assert len(self.llm.requests) == count
        content = [
            message["content"] for message in self.llm.requests[-1].messages if message["role"] == "user"
        ]
        return [part if isinstance(part, str) else part[0]["text"] for part in content]

    async def settled(self) -> None:
        """Wait until every accepted message is answered or parked: a message leaves the inbox only then."""

        async def is_idle() -> bool:
            return not self.gateway.active_count and not await self.store.inbox.waiting(self.service.platform)

        await until(is_idle)


class RestartableBot(Bot):
    """A bot whose database can be copied as a kill would leave it."""

    def __init__(self, path: Path, store: SqliteStore, service: ChatService, *answers: Any) -> None:
        super().__init__(store, path.parent / "workspaces", *answers, service=service, sees=False)
        self.path = path

    def after_a_kill(self) -> Path:
        """Copy the database as it is now."""
        copy = self.path.with_name(f"after_{self.path.name}")
        with closing(sqlite3.connect(self.path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        return copy

    @property
    def prompts(self) -> list[str]:
        """The newest message of each request."""
        return [str(request.messages[-1]["content"]) for request in self.llm.requests]

    @property
    def shown(self) -> list[str]:
        return [message.text for message in self.service.messages]


@asynccontextmanager
async def running_bot(folder: Path, *answers: Any, **settings: Any) -> AsyncIterator[Bot]:
    bot = Bot(await temporary_store(), folder, *answers, **settings)
    yield bot
    await bot.gateway.close()
    await bot.receiver.close()


@asynccontextmanager
async def restartable_bot(path: Path, service: ChatService, *answers: Any) -> AsyncIterator[RestartableBot]:
    """Open a bot on a database and a chat service that may have a past."""
    store = await SqliteStore.open(path)
    await store.leases.expire_all()
    bot = RestartableBot(path, store, service, *answers)
    await bot.receiver.open()
    try:
        yield bot
    finally:
        await bot.gateway.close()
        await bot.receiver.close()
        await store.close()
