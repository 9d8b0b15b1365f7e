"""The store in memory: the same behaviour as `SqliteStore`, for tests of code that needs a store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TypeVar

from agent.errors import HeadMoved, NotFound, StoreError
from agent.fts_text import parse_query
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
from gateway.store.sqlite.access import PrivateDatabase, StoredPeople
from gateway.store.sqlite.inbox import StoredInbox, answer
from gateway.store.sqlite.leases import StoredLeases
from gateway.store.sqlite.outbox import StoredOutbox
from gateway.store.sqlite.queue_status import try_to_write
from gateway.store.sqlite.rows import message_row, messages_from
from gateway.store.sqlite.search import Scope, find, snippets
from gateway.store.sqlite.search_index import Entry, index_in_memory
from gateway.store.sqlite.sign_outs import StoredSignOuts
from gateway.store.sqlite.validation import (
    check_appended,
    check_context,
    check_same_conversation,
    context_ids,
    storable,
    title_from,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Call:
    session_id: str
    usage: Usage
    created_at: float
    spender: str


class MemoryStore:
    """Everything in dictionaries and lists; they keep the order in which things were stored."""

    def __init__(self) -> None:
        self.damage = ""
        self._conversations: dict[str, Conversation] = {}
        self._sessions: dict[str, Session] = {}
        self._messages: dict[str, Message] = {}
        self._context: dict[str, list[str]] = {}
        self._compactions: dict[str, Compaction] = {}
        self._calls: list[_Call] = []
        self._facts: dict[str, list[Fact]] = {}
        self._state: dict[tuple[str, str], str] = {}
        self._windows: dict[str, LearnedWindow] = {}
        private = PrivateDatabase().run
        self.people = StoredPeople(private, private)
        self.sign_outs = StoredSignOuts(private, private)
        self.inbox = StoredInbox(private, private, private)
        self.outbox = StoredOutbox(private, private, private)
        self.leases = StoredLeases(private)
        self._beside = private

    async def close(self) -> None:
        """Nothing to close; what was stored can still be looked at."""

    async def try_to_write(self) -> None:
        await self._beside(try_to_write)

    async def open_conversation(self, address: Address, *, person: str) -> Conversation:
        for known in self._conversations.values():
            if known.address == address:
                return known
        conversation = Conversation(new_id("conv"), address, person, new_id("ses"), time.time())
        first = Session(conversation.live_session_id, conversation.id, None, None, conversation.created_at)
        self._conversations[conversation.id] = conversation
        self._sessions[first.id] = first
        return conversation

    async def conversation(self, conversation_id: str) -> Conversation:
        return _found(self._conversations, conversation_id)

    async def conversations(
        self, *, person: str | None = None, platform: str | None = None, limit: int = 50
    ) -> list[Overview]:
        place = {message_id: number for number, message_id in enumerate(self._messages)}
        listed: list[tuple[int, int, Overview]] = []
        for number, conversation in enumerate(self._conversations.values()):
            if person in (None, conversation.person) and platform in (None, conversation.address.platform):
                said = self._said_in(conversation.id)
                last = place[said[-1].id] if said else -1
                listed.append((last, number, self._overview(conversation, said)))
        newest_first = sorted(listed, key=lambda entry: entry[:2], reverse=True)
        return [overview for *_, overview in newest_first[: max(limit, 0)]]

    async def session(self, session_id: str) -> Session:
        return _found(self._sessions, session_id)

    async def append(
        self, session_id: str, messages: Sequence[Message], *, answers: str = "", settles: Sequence[str] = ()
    ) -> list[Message]:
        check_appended(messages)
        conversation_id = _found(self._sessions, session_id).conversation_id
        stored = self._insert(messages, session_id)
        if answers or settles:
            await self._beside(answer, conversation_id, stored, answers, settles)
        return stored

    async def history(self, session_id: str) -> list[Message]:
        _found(self._sessions, session_id)
        began_with = self._context.get(session_id, [])
        own = [
            message
            for message in self._messages.values()
            if message.session_id == session_id and message.kind in ("said", "note")
        ]
        added = [message for message in own if message.kind == "said" or message.id not in began_with]
        return [self._messages[message_id] for message_id in began_with] + added

    async def transcript(self, conversation_id: str, *, limit: int | None = None) -> list[Message]:
        live = _found(self._conversations, conversation_id).live_session_id
        ancestry = {session.id for session in await self.lineage(live)}
        said = [message for message in self._said() if message.session_id in ancestry]
        return said if limit is None else said[max(0, len(said) - max(limit, 0)) :]

    async def pin(self, session_id: str, *, system_prompt: str, model: str, engine: str = "") -> Session:
        session = _found(self._sessions, session_id)
        if session.system_prompt is None:
            session = replace(session, system_prompt=storable(system_prompt), model=model, engine=engine)
            self._sessions[session_id] = session
        return session

    async def split(self, split: Split) -> Session:
        check_context(split)
        if split.child_id in self._sessions:
            return self._sessions[split.child_id]
        parent = _found(self._sessions, split.parent_id)
        conversation = self._conversations[parent.conversation_id]
        if conversation.live_session_id != parent.id:
            raise HeadMoved(f"({conversation.id})")
        for kept in (entry for entry in split.context if isinstance(entry, str)):
            if self._conversation_of(_found(self._messages, kept)) != conversation.id:
                raise NotFound(f"({kept})")
        child = Session(
            split.child_id,
            conversation.id,
            parent.id,
            split.reason,
            time.time(),
            split.engine,
            split.model,
            None if split.system_prompt is None else storable(split.system_prompt),
        )
        self._insert([entry for entry in split.context if isinstance(entry, Message)], child.id)
        self._sessions[child.id] = child
        self._context[child.id] = context_ids(split)
        self._conversations[conversation.id] = replace(conversation, live_session_id=child.id)
        if split.compaction:
            self._compactions[child.id] = split.compaction
        return child

    async def make_live(self, session_id: str, *, instead_of: str) -> Conversation:
        wanted, left = _found(self._sessions, session_id), _found(self._sessions, instead_of)
        check_same_conversation(wanted, left)
        conversation = self._conversations[left.conversation_id]
        if conversation.live_session_id != left.id:
            raise HeadMoved(f"({conversation.id})")
        self._conversations[conversation.id] = replace(conversation, live_session_id=wanted.id)
        return self._conversations[conversation.id]

    async def lineage(self, session_id: str) -> list[Session]:
        session = _found(self._sessions, session_id)
        line = [session]
        while session.parent_id is not None:
            session = self._sessions[session.parent_id]
            line.append(session)
        return line[::-1]

    async def sessions(self, conversation_id: str) -> list[Session]:
        _found(self._conversations, conversation_id)
        return [session for session in self._sessions.values() if session.conversation_id == conversation_id]

    async def compactions(self, conversation_id: str) -> list[tuple[str, Compaction]]:
        _found(self._conversations, conversation_id)
        return [
            (session_id, compaction)
            for session_id, compaction in self._compactions.items()
            if self._sessions[session_id].conversation_id == conversation_id
        ]

    async def record_usage(
        self, session_id: str, usage: Usage, *, model: str, purpose: str = "turn", spender: str = ""
    ) -> None:
        session = _found(self._sessions, session_id)
        self._calls.append(_Call(session_id, usage, time.time(), spender))
        if purpose == "turn":
            self._sessions[session_id] = replace(session, prompt_tokens=usage.prompt_tokens)

    async def usage(self, *, conversation_id: str | None = None, since: float = 0.0) -> Usage:
        if conversation_id is not None:
            _found(self._conversations, conversation_id)
        calls = [
            call.usage
            for call in self._calls
            if call.created_at >= since
            and conversation_id in (None, self._sessions[call.session_id].conversation_id)
        ]
        costs = [call.cost_usd for call in calls if call.cost_usd is not None]
        return Usage(
            sum(call.prompt_tokens for call in calls),
            sum(call.completion_tokens for call in calls),
            sum(call.cache_read_tokens for call in calls),
            sum(call.cache_write_tokens for call in calls),
            sum(costs) if costs else None,
        )

    async def spent(self, *, spender: str | None = None, since: float = 0.0) -> Spent:
        calls = [
            call.usage for call in self._calls if call.created_at >= since and spender in (None, call.spender)
        ]
        unpriced = [call.total_tokens for call in calls if call.cost_usd is None]
        return Spent(sum(call.cost_usd or 0.0 for call in calls), len(unpriced), sum(unpriced))

    async def search(
        self, query: str, *, person: str | None = None, conversation_id: str | None = None, limit: int = 20
    ) -> list[SearchHit]:
        if conversation_id is not None:
            _found(self._conversations, conversation_id)
        return await asyncio.to_thread(self._search, query, Scope(person, conversation_id), limit)

    async def facts(self, person: str) -> list[Fact]:
        return list(self._facts.get(person, ()))

    async def remember(self, person: str, text: str, *, after_outside: bool = False) -> Fact:
        fact = Fact(new_id("fact"), storable(text), time.time(), after_outside)
        self._facts.setdefault(person, []).append(fact)
        return fact

    async def forget(self, person: str, fact_id: str) -> bool:
        known = self._facts.get(person, [])
        kept = [fact for fact in known if fact.id != fact_id]
        self._facts[person] = kept
        return len(kept) < len(known)

    async def known(self, message_ids: Sequence[str]) -> set[str]:
        return self._messages.keys() & set(message_ids)

    async def load_state(self, conversation_id: str, key: str) -> str | None:
        _found(self._conversations, conversation_id)
        return self._state.get((conversation_id, key))

    async def save_state(self, conversation_id: str, key: str, value: str) -> None:
        _found(self._conversations, conversation_id)
        self._state[conversation_id, key] = storable(value)

    async def learned_windows(self) -> list[LearnedWindow]:
        return list(self._windows.values())

    async def learn_window(self, window: LearnedWindow) -> None:
        self._windows[window.model] = window

    async def forget_window(self, model: str) -> None:
        self._windows.pop(model, None)

    def _insert(self, messages: Sequence[Message], session_id: str) -> list[Message]:
        """All or none, and as they come back from a database: copies, with their texts made storable."""
        stored = messages_from([message_row(message, session_id) for message in messages])
        added = {message.id: message for message in stored}
        if len(added) < len(stored) or added.keys() & self._messages.keys():
            raise StoreError("(a message of that id is stored already)")
        for message in stored:
            if message.source_id is not None and message.source_id not in self._messages:
                raise NotFound(f"({message.source_id})")
        self._messages.update(added)
        return stored

    def _said(self) -> list[Message]:
        return [message for message in self._messages.values() if message.kind == "said"]

    def _said_in(self, conversation_id: str) -> list[Message]:
        return [message for message in self._said() if self._conversation_of(message) == conversation_id]

    def _conversation_of(self, message: Message) -> str:
        return self._sessions[message.session_id].conversation_id

    def _overview(self, conversation: Conversation, said: list[Message]) -> Overview:
        first = next((message.content for message in said if message.role == "user"), None)
        sessions = sum(session.conversation_id == conversation.id for session in self._sessions.values())
        updated_at = said[-1].created_at if said else conversation.created_at
        return Overview(conversation, title_from(first), len(said), sessions, updated_at)

    def _search(self, text: str, scope: Scope, limit: int) -> list[SearchHit]:
        """With an index made for the occasion: slow for many messages, and right for any."""
        said = dict(enumerate(self._said(), start=1))
        entries = [
            Entry(seq, message.role, message.content, conversation.id, conversation.person)
            for seq, message in said.items()
            for conversation in (self._conversations[self._conversation_of(message)],)
        ]
        query = parse_query(storable(text))
        with closing(index_in_memory(entries)) as index:
            matches = find(index, query, scope, limit)
        shown = snippets({match.seq: said[match.seq].content for match in matches}, query)
        return [
            SearchHit(said[match.seq], self._conversation_of(said[match.seq]), shown[match.seq])
            for match in matches
        ]


def _found(known: Mapping[str, T], wanted: str) -> T:
    try:
        return known[wanted]
    except KeyError:
        raise NotFound(f"({wanted})") from None
