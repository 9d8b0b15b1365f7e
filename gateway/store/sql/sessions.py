"""Conversations, sessions and messages in SQL: `agent.store.SessionStore`."""

from __future__ import annotations

import time
from collections.abc import Sequence

import structlog

from agent.ids import new_id
from agent.llm import Usage
from agent.messages import Message
from agent.store import Address, Conversation, Fact, SearchHit, Session, Split
from gateway.store.sql import reads, writes
from gateway.store.sql.database import Part, Scope, read, write
from gateway.store.sql.rows import check_appended, check_context, storable

log = structlog.get_logger(__name__)


class SqlSessions(Part):
    conversation = read(reads.conversation)
    conversations = read(reads.conversations)
    session = read(reads.session)
    sessions = read(reads.sessions)
    lineage = read(reads.lineage)
    history = read(reads.history)
    transcript = read(reads.transcript)
    compactions = read(reads.compactions)
    known = read(reads.known)
    usage = read(reads.usage)
    spent = read(reads.spent)
    facts = read(reads.facts)
    forget = write(writes.forget)
    load_state = read(reads.load_state)
    save_state = write(writes.save_state)
    learned_windows = read(reads.learned_windows)
    learn_window = write(writes.learn_window)
    forget_window = write(writes.forget_window)

    async def open_conversation(self, address: Address, *, person: str) -> Conversation:
        known = await self._database.read(reads.conversation_at, address)
        if known is not None:
            return known
        new = Conversation(new_id("conv"), address, person, new_id("ses"), time.time())
        return await self._database.write(writes.open_conversation, new, fence=self._fence)

    async def append(
        self, session_id: str, messages: Sequence[Message], *, answers: str = "", settles: Sequence[str] = ()
    ) -> list[Message]:
        check_appended(messages)
        stored = await self._database.write(
            writes.append, session_id, messages, answers, settles, fence=self._fence
        )
        self._database.index_soon()
        return stored

    async def pin(self, session_id: str, *, system_prompt: str, model: str) -> Session:
        known = await self.session(session_id)
        if known.system_prompt is not None:
            return known
        return await self._database.write(writes.pin, session_id, system_prompt, model, fence=self._fence)

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

    async def record_usage(
        self, session_id: str, usage: Usage, *, model: str, purpose: str = "turn", spender: str = ""
    ) -> None:
        await self._database.write(
            writes.record_usage, session_id, usage, model, purpose, spender, time.time(), fence=self._fence
        )

    async def search(
        self, query: str, *, person: str | None = None, conversation_id: str | None = None, limit: int = 20
    ) -> list[SearchHit]:
        return await self._database.search(query, Scope(person, conversation_id), limit)

    async def remember(self, person: str, text: str, *, after_outside: bool = False) -> Fact:
        fact = Fact(new_id("fact"), storable(text), time.time(), after_outside)
        await self._database.write(writes.remember, person, fact, fence=self._fence)
        return fact
