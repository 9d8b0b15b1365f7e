"""Conversations, sessions and messages in SQLite: `agent.store.SessionStore`."""

from __future__ import annotations

import time
from collections.abc import Sequence

import structlog

from agent.ids import new_id
from agent.llm import Usage
from agent.messages import Message
from agent.store import (
    Address,
    Compaction,
    Conversation,
    Fact,
    LearnedWindow,
    Overview,
    SearchHit,
    Session,
    Spent,
    Split,
)
from gateway.store.ports import Fence
from gateway.store.sqlite import reads, writes
from gateway.store.sqlite.database import Database
from gateway.store.sqlite.search import Scope, search
from gateway.store.sqlite.validation import check_appended, check_context, storable

log = structlog.get_logger(__name__)


class SqliteSessions:
    """Reads run on the readers of the database; every write carries the fence, if there is one."""

    def __init__(self, database: Database, fence: Fence | None = None) -> None:
        self._database = database
        self._fence = fence

    async def open_conversation(self, address: Address, *, person: str) -> Conversation:
        known = await self._database.read(reads.conversation_at, address)
        if known is not None:
            return known
        new = Conversation(new_id("conv"), address, person, new_id("ses"), time.time())
        return await self._database.write(writes.open_conversation, new, fence=self._fence)

    async def conversation(self, conversation_id: str) -> Conversation:
        return await self._database.read(reads.conversation, conversation_id)

    async def conversations(
        self, *, person: str | None = None, platform: str | None = None, limit: int = 50
    ) -> list[Overview]:
        return await self._database.read(reads.conversations, person, platform, limit)

    async def session(self, session_id: str) -> Session:
        return await self._database.read(reads.session, session_id)

    async def append(
        self, session_id: str, messages: Sequence[Message], *, answers: str = "", settles: Sequence[str] = ()
    ) -> list[Message]:
        check_appended(messages)
        stored = await self._database.write(
            writes.append, session_id, messages, answers, settles, fence=self._fence
        )
        self._database.index_soon()
        return stored

    async def history(self, session_id: str) -> list[Message]:
        return await self._database.read(reads.history, session_id)

    async def transcript(self, conversation_id: str, *, limit: int | None = None) -> list[Message]:
        return await self._database.read(reads.transcript, conversation_id, limit)

    async def pin(self, session_id: str, *, system_prompt: str, model: str, engine: str = "") -> Session:
        known = await self._database.read(reads.session, session_id)
        if known.system_prompt is not None:
            return known
        return await self._database.write(
            writes.pin, session_id, system_prompt, model, engine, fence=self._fence
        )

    async def split(self, split: Split) -> Session:
        check_context(split)
        child = await self._database.write(writes.split, split, fence=self._fence)
        self._database.index_soon()
        log.info(
            "session.split",
            conversation=child.conversation_id,
            session=child.id,
            parent=child.parent_id,
            reason=child.reason,
        )
        return child

    async def make_live(self, session_id: str, *, instead_of: str) -> Conversation:
        conversation = await self._database.write(writes.make_live, session_id, instead_of, fence=self._fence)
        log.info("session.live_again", conversation=conversation.id, session=session_id, left=instead_of)
        return conversation

    async def lineage(self, session_id: str) -> list[Session]:
        return await self._database.read(reads.lineage, session_id)

    async def sessions(self, conversation_id: str) -> list[Session]:
        return await self._database.read(reads.sessions, conversation_id)

    async def compactions(self, conversation_id: str) -> list[tuple[str, Compaction]]:
        return await self._database.read(reads.compactions, conversation_id)

    async def record_usage(
        self, session_id: str, usage: Usage, *, model: str, purpose: str = "turn", spender: str = ""
    ) -> None:
        await self._database.write(
            writes.record_usage, session_id, usage, model, purpose, spender, time.time(), fence=self._fence
        )

    async def usage(self, *, conversation_id: str | None = None, since: float = 0.0) -> Usage:
        return await self._database.read(reads.usage, conversation_id, since)

    async def spent(self, *, spender: str | None = None, since: float = 0.0) -> Spent:
        return await self._database.read(reads.spent, spender, since)

    async def search(
        self, query: str, *, person: str | None = None, conversation_id: str | None = None, limit: int = 20
    ) -> list[SearchHit]:
        if indexer := self._database.indexer:
            await indexer.catch_up()
        return await self._database.read(search, query, Scope(person, conversation_id), limit)

    async def facts(self, person: str) -> list[Fact]:
        return await self._database.read(reads.facts, person)

    async def remember(self, person: str, text: str, *, after_outside: bool = False) -> Fact:
        fact = Fact(new_id("fact"), storable(text), time.time(), after_outside)
        await self._database.write(writes.remember, person, fact, fence=self._fence)
        return fact

    async def forget(self, person: str, fact_id: str) -> bool:
        return await self._database.write(writes.forget, person, fact_id, fence=self._fence)

    async def known(self, message_ids: Sequence[str]) -> set[str]:
        return await self._database.read(reads.known, message_ids)

    async def load_state(self, conversation_id: str, key: str) -> str | None:
        return await self._database.read(reads.load_state, conversation_id, key)

    async def save_state(self, conversation_id: str, key: str, value: str) -> None:
        await self._database.write(writes.save_state, conversation_id, key, value, fence=self._fence)

    async def learned_windows(self) -> list[LearnedWindow]:
        return await self._database.read(reads.learned_windows)

    async def learn_window(self, window: LearnedWindow) -> None:
        await self._database.write(writes.learn_window, window, fence=self._fence)

    async def forget_window(self, key: str) -> None:
        await self._database.write(writes.forget_window, key, fence=self._fence)
