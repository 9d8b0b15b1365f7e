"""Keeps a search index up to date in the background, in small steps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple

import structlog

from agent.errors import StoreError
from agent.untrusted import without_marks
from gateway.store.sql.batch_writer import Writer
from gateway.store.sql.database import Connection, batches, marks

log = structlog.get_logger(__name__)

STEP_MESSAGES = 64
STEP_CHARACTERS = 50_000
"""Limits of one step, which is the longest time that other writes wait for the indexer."""

MAX_CHARACTERS = 100_000
"""How much of a message is indexed: more of it would delay other writes."""

PAUSE_SECONDS = 0.1
"""The delay before the first step, and between steps while others write."""


class Entry(NamedTuple):
    """A message to index."""

    seq: int
    role: str
    text: str
    conversation_id: str
    person: str


class Progress(NamedTuple):
    indexed: int
    stored: int


_ENTRIES = """
    SELECT messages.seq, role, content, conversation_id, person
    FROM messages
    JOIN sessions ON sessions.id = messages.session_id
    JOIN conversations ON conversations.id = sessions.conversation_id
"""


def entries_after(connection: Connection, seq: int) -> Iterator[Entry]:
    """Yield the messages after `seq`."""
    rows = connection.execute(
        f"{_ENTRIES} WHERE messages.seq > ? AND kind = 'said' ORDER BY messages.seq", (seq,)
    )
    return map(Entry._make, rows)


def entries(connection: Connection, seqs: Sequence[int]) -> list[Entry]:
    return [
        Entry._make(row)
        for batch in batches(seqs)
        for row in connection.execute(
            f"{_ENTRIES} WHERE messages.seq IN ({marks(batch)}) ORDER BY messages.seq", batch
        )
    ]


def searched_text(entry: Entry) -> str:
    """Return the text without the markers around untrusted text, which are the same in every message."""
    return without_marks(entry.text)[:MAX_CHARACTERS]


def person_token(person: str) -> str:
    return _token(b"person", person)


def conversation_token(conversation_id: str) -> str:
    return _token(b"conversation", conversation_id)


def _token(kind: bytes, name: str) -> str:
    """Replace a name by a number: the tokenizer would split the name and stem its parts."""
    digest = blake2b(name.encode(), digest_size=8, person=kind).digest()
    return str(int.from_bytes(digest, "big"))


class Indexer:
    """Indexes messages in steps that other writes can wait for."""

    def __init__(
        self,
        writer: Writer,
        progress: Callable[[], Awaitable[Progress]],
        advance: Callable[[Any], int],
    ) -> None:
        """`advance` does one step in a transaction and returns how far messages are indexed."""
        self._writer = writer
        self._progress = progress
        self._advance = advance
        self._wakeup = asyncio.Event()
        self._wakeup.set()  # a crash may have left messages that are not indexed
        self._step_lock = asyncio.Lock()
        self._failures = 0
        self._task = asyncio.create_task(self._follow(), name="store-indexer")

    def wake(self) -> None:
        """Index the messages that were stored."""
        self._wakeup.set()

    async def catch_up(self) -> None:
        """Index all messages stored so far. If nothing can be written, give up after one attempt: the search then reads
        the rest itself."""
        failures = self._failures
        indexed, stored = await self._progress()
        while indexed < stored and failures == self._failures:
            try:
                indexed = await self._step(unless_failed_since=failures)
            except StoreError as error:
                log.warning("store.index_failed", error=str(error))

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _follow(self) -> None:
        while True:
            await self._wakeup.wait()
            await asyncio.sleep(PAUSE_SECONDS)
            self._wakeup.clear()
            try:
                await self._catch_up_gently()
            except StoreError as error:
                # Nothing is lost: the next message or search tries again.
                log.warning("store.index_failed", error=str(error))

    async def _catch_up_gently(self) -> None:
        """Run steps without a pause, or with pauses while others write."""
        indexed, stored = await self._progress()
        while indexed < stored:
            indexed = await self._step()
            if self._writer.last_shared:
                await asyncio.sleep(PAUSE_SECONDS)

    async def _step(self, *, unless_failed_since: int | None = None) -> int:
        async with self._step_lock:  # ten searches at once must not make one long transaction
            if unless_failed_since not in (None, self._failures):
                return 0
            try:
                return await self._writer.write(self._advance, durable=False)  # the index can be rebuilt
            except StoreError:
                self._failures += 1
                raise
