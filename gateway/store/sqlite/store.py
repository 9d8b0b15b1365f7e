"""The store in a SQLite file: `agent.store.SessionStore` on aiosqlite."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog

from agent.aio import run_in_daemon_thread
from agent.errors import StoreCorrupt, StoreError, StoreReadOnly
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
from gateway.store.errors import translated
from gateway.store.ports import Fence, fence
from gateway.store.sqlite import leases, queue_status, reads, writes
from gateway.store.sqlite.access import StoredPeople
from gateway.store.sqlite.batch_writer import Writer
from gateway.store.sqlite.connection import ThreadedConnection, connect_reader, open_reader, open_writer
from gateway.store.sqlite.imports import StoredImports
from gateway.store.sqlite.inbox import StoredInbox
from gateway.store.sqlite.leases import StoredLeases
from gateway.store.sqlite.outbox import StoredOutbox
from gateway.store.sqlite.reports import StoredInsight
from gateway.store.sqlite.search import Scope, search
from gateway.store.sqlite.search_index import Indexer, Progress, progress
from gateway.store.sqlite.sign_outs import StoredSignOuts
from gateway.store.sqlite.validation import check_appended, check_context, storable

log = structlog.get_logger(__name__)
T = TypeVar("T")

READERS = 2
"""A long search must not keep a short question waiting."""

_DAY = 86_400.0
_LOOK_AGAIN_SECONDS = 300.0
_STEPS = 10_000
"""SQLite's steps between two questions whether a look is over."""


class SqliteStore:
    """Made by `open`. One writer that shares its commits; readers of their own that wait for nobody."""

    def __init__(self, readers: Sequence[ThreadedConnection], writing: ThreadedConnection | None) -> None:
        self.damage = ""
        """What is wrong with the file, as far as a query or the last `look_for_damage` has met it."""
        self._readers = readers
        self._writing = writing
        self._writer = Writer(writing) if writing else None
        self._indexer = Indexer(self._writer, self._index_progress) if self._writer else None
        self.people = StoredPeople(self._read, self._write)
        """Who may talk to a bot."""
        self.sign_outs = StoredSignOuts(self._read, self._write)
        self.inbox = StoredInbox(self._read, self._write, self._write_soon)
        self.outbox = StoredOutbox(self._read, self._write, self._write_soon)
        self.leases = StoredLeases(self._write_soon)
        self.insight = StoredInsight(self._read)
        self.imports = StoredImports(self._read, self._write)

    @classmethod
    async def open(cls, path: Path, *, read_only: bool = False) -> SqliteStore:
        """The database at `path`, made and migrated where needed. A read-only one can run beside it."""
        async with AsyncExitStack() as if_it_fails:
            writing = None if read_only else await open_writer(path)
            if writing:
                if_it_fails.push_async_callback(writing.close)
            readers = []
            for _ in range(READERS):
                readers.append(await open_reader(path))
                if_it_fails.push_async_callback(readers[-1].close)
            if_it_fails.pop_all()
        log.debug("store.opened", path=str(path), read_only=read_only)
        return cls(readers, writing)

    async def close(self) -> None:
        """What was accepted is stored first. Closing twice is fine."""
        if self._indexer:
            await self._indexer.close()
        if self._writer:
            await self._writer.close()
        with translated():
            for connection in self._readers:
                await connection.close()
            if self._writing:
                await self._writing.close()

    async def open_conversation(self, address: Address, *, person: str) -> Conversation:
        known = await self._read(reads.conversation_at, address)
        if known is not None:
            return known
        new = Conversation(new_id("conv"), address, person, new_id("ses"), time.time())
        return await self._write(writes.open_conversation, new)

    async def conversation(self, conversation_id: str) -> Conversation:
        return await self._read(reads.conversation, conversation_id)

    async def conversations(
        self, *, person: str | None = None, platform: str | None = None, limit: int = 50
    ) -> list[Overview]:
        return await self._read(reads.conversations, person, platform, limit)

    async def session(self, session_id: str) -> Session:
        return await self._read(reads.session, session_id)

    async def append(
        self, session_id: str, messages: Sequence[Message], *, answers: str = "", settles: Sequence[str] = ()
    ) -> list[Message]:
        check_appended(messages)
        stored = await self._write(writes.append, session_id, messages, answers, settles)
        self._index_soon()
        return stored

    async def history(self, session_id: str) -> list[Message]:
        return await self._read(reads.history, session_id)

    async def transcript(self, conversation_id: str, *, limit: int | None = None) -> list[Message]:
        return await self._read(reads.transcript, conversation_id, limit)

    async def pin(self, session_id: str, *, system_prompt: str, model: str, engine: str = "") -> Session:
        known = await self._read(reads.session, session_id)
        if known.system_prompt is not None:
            return known
        return await self._write(writes.pin, session_id, system_prompt, model, engine)

    async def split(self, split: Split) -> Session:
        check_context(split)
        child = await self._write(writes.split, split)
        self._index_soon()
        log.info(
            "session.split",
            conversation=child.conversation_id,
            session=child.id,
            parent=child.parent_id,
            reason=child.reason,
        )
        return child

    async def make_live(self, session_id: str, *, instead_of: str) -> Conversation:
        conversation = await self._write(writes.make_live, session_id, instead_of)
        log.info("session.live_again", conversation=conversation.id, session=session_id, left=instead_of)
        return conversation

    async def lineage(self, session_id: str) -> list[Session]:
        return await self._read(reads.lineage, session_id)

    async def sessions(self, conversation_id: str) -> list[Session]:
        return await self._read(reads.sessions, conversation_id)

    async def compactions(self, conversation_id: str) -> list[tuple[str, Compaction]]:
        return await self._read(reads.compactions, conversation_id)

    async def record_usage(
        self, session_id: str, usage: Usage, *, model: str, purpose: str = "turn", spender: str = ""
    ) -> None:
        await self._write(writes.record_usage, session_id, usage, model, purpose, spender)

    async def usage(self, *, conversation_id: str | None = None, since: float = 0.0) -> Usage:
        return await self._read(reads.usage, conversation_id, since)

    async def spent(self, *, spender: str | None = None, since: float = 0.0) -> Spent:
        return await self._read(reads.spent, spender, since)

    async def search(
        self, query: str, *, person: str | None = None, conversation_id: str | None = None, limit: int = 20
    ) -> list[SearchHit]:
        if self._indexer:
            await self._indexer.catch_up()
        return await self._read(search, query, Scope(person, conversation_id), limit)

    async def facts(self, person: str) -> list[Fact]:
        return await self._read(reads.facts, person)

    async def remember(self, person: str, text: str, *, after_outside: bool = False) -> Fact:
        fact = Fact(new_id("fact"), storable(text), time.time(), after_outside)
        await self._write(writes.remember, person, fact)
        return fact

    async def forget(self, person: str, fact_id: str) -> bool:
        return await self._write(writes.forget, person, fact_id)

    async def known(self, message_ids: Sequence[str]) -> set[str]:
        return await self._read(reads.known, message_ids)

    async def load_state(self, conversation_id: str, key: str) -> str | None:
        return await self._read(reads.load_state, conversation_id, key)

    async def save_state(self, conversation_id: str, key: str, value: str) -> None:
        await self._write(writes.save_state, conversation_id, key, value)

    async def learned_windows(self) -> list[LearnedWindow]:
        return await self._read(reads.learned_windows)

    async def learn_window(self, window: LearnedWindow) -> None:
        await self._write(writes.learn_window, window)

    async def forget_window(self, key: str) -> None:
        await self._write(writes.forget_window, key)

    async def try_to_write(self) -> None:
        await self._write_soon(queue_status.try_to_write)

    async def look_for_damage(self) -> None:
        """Read the whole file, on a thread and a connection of its own, and note in `damage` what is wrong with it."""
        path, over = await self._read(_file_of), threading.Event()
        try:
            found = await run_in_daemon_thread(partial(_damage, path, over), "look for damage")
        finally:
            over.set()
        if isinstance(found, StoreError):
            raise found
        self.damage = found
        if self.damage:
            log.error("store.damaged", detail=self.damage)

    async def watch_for_damage(self, *, again_seconds: float = _LOOK_AGAIN_SECONDS) -> None:
        """Look once a day, so that damage is known while there is a backup; when damage is known, look again soon: the
        file may have been repaired."""
        while True:
            with suppress(StoreError):
                await self.look_for_damage()
            for _ in range(int(_DAY / again_seconds)):
                await asyncio.sleep(again_seconds)
                if self.damage:
                    break

    async def _read(self, work: Callable[..., T], *arguments: Any) -> T:
        idlest = min(self._readers, key=lambda reader: reader.running)
        with self._noting_damage(), translated():
            return await idlest.run(work, *arguments)

    async def _write(self, work: Callable[..., T], *arguments: Any) -> T:
        return await self._write_fenced(work, arguments, lasting=True)

    async def _write_soon(self, work: Callable[..., T], *arguments: Any) -> T:
        """Without a wait for the disk: it survives the end of the process, but perhaps not a power cut."""
        return await self._write_fenced(work, arguments, lasting=False)

    async def _write_fenced(self, work: Callable[..., T], arguments: tuple[Any, ...], *, lasting: bool) -> T:
        if self._writer is None:
            raise StoreReadOnly("It was opened for reading only.")
        with self._noting_damage():
            if guard := fence.get():
                return await self._writer.write(_behind, guard, work, *arguments, lasting=lasting)
            return await self._writer.write(work, *arguments, lasting=lasting)

    @contextmanager
    def _noting_damage(self) -> Iterator[None]:
        try:
            yield
        except StoreCorrupt as error:
            self.damage = error.detail
            raise

    async def _index_progress(self) -> Progress:
        return await self._read(progress)

    def _index_soon(self) -> None:
        if self._indexer:
            self._indexer.notice()


def _file_of(connection: sqlite3.Connection) -> Path:
    _, _, path = connection.execute("PRAGMA database_list").fetchone()
    return Path(path)


def _damage(path: Path, over: threading.Event) -> str | StoreError:
    """What is wrong with the file, or why that is not known. Ends early once it is `over`."""
    try:
        with translated(), closing(connect_reader(path)) as connection:
            connection.set_progress_handler(over.is_set, _STEPS)
            return reads.damage(connection) or ""
    except StoreCorrupt as error:
        return error.detail
    except StoreError as error:
        return error


def _behind(connection: sqlite3.Connection, guard: Fence, work: Callable[..., T], *arguments: Any) -> T:
    leases.check(connection, guard)
    return work(connection, *arguments)
