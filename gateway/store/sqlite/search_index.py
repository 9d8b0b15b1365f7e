# ruff: noqa: S608 - only names of our own tables and columns are put into the SQL; values are always bound
"""A search index that has lost touch with the messages: how that is found out, and how it is made anew from them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import closing, suppress
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import structlog

from agent.errors import SearchIndexDamaged, StoreError
from agent.fts_text import indexable, parse_query, quoted
from agent.untrusted import without_marks
from gateway.progress import report
from gateway.store.sqlite.batch_writer import Writer, commit_together

STEP_MESSAGES = 64
STEP_CHARACTERS = 50_000
"""A step stops at the first of these. It is the longest that a writer can be held up."""

MERGE_PAGES = 16
"""How much of the index a step tidies up, so that the number of its segments stays small."""

MAX_CHARACTERS = 100_000
"""A longer message is found by its beginning only: indexing more of it would hold up the writer."""

TOKENIZER = "porter unicode61 remove_diacritics 2"


class Entry(NamedTuple):
    """A message as the index takes it."""

    seq: int
    role: str
    text: str
    conversation_id: str
    person: str


class Progress(NamedTuple):
    indexed: int
    stored: int


def progress(connection: sqlite3.Connection) -> Progress:
    row = connection.execute(
        "SELECT seq, coalesce((SELECT max(seq) FROM messages), 0) FROM index_progress"
    ).fetchone()
    if row is None:
        raise SearchIndexDamaged("(how far it reaches is not known)")
    return Progress(*row)


def advance(connection: sqlite3.Connection) -> int:
    """One small step inside the writer's transaction; returns how far the index reaches now.

    The index and the note of its progress are committed together: after a crash it goes on where it was.
    """
    reached, stored = progress(connection)
    characters = 0
    for count, entry in enumerate(entries_after(connection, reached), start=1):
        add(connection, entry)
        characters += len(entry.text)
        if count == STEP_MESSAGES or characters >= STEP_CHARACTERS:
            reached = entry.seq
            break
    else:
        reached = stored
    connection.execute("UPDATE index_progress SET seq = ? WHERE seq < ?", (reached, reached))
    connection.execute("INSERT INTO message_index (message_index, rank) VALUES ('merge', ?)", (MERGE_PAGES,))
    return reached


def entries_after(connection: sqlite3.Connection, seq: int) -> Iterator[Entry]:
    """What was said since then."""
    rows = connection.execute(
        """
        SELECT messages.seq, role, content, conversation_id, person
        FROM messages
        JOIN sessions ON sessions.id = messages.session_id
        JOIN conversations ON conversations.id = sessions.conversation_id
        WHERE messages.seq > ? AND kind = 'said'
        ORDER BY messages.seq
        """,
        (seq,),
    )
    return map(Entry._make, rows)


def add(connection: sqlite3.Connection, entry: Entry) -> None:
    text = indexable(searched_text(entry))
    said, tool = (None, text) if entry.role == "tool" else (text, None)
    scope = f"{person_token(entry.person)} {conversation_token(entry.conversation_id)}"
    connection.execute(
        "INSERT INTO message_index (rowid, scope, said, tool) VALUES (?, ?, ?, ?)",
        (entry.seq, scope, said, tool),
    )


def searched_text(entry: Entry) -> str:
    """Without the marks around others' words: all of them say the same, and nobody looks for that."""
    return without_marks(entry.text)[:MAX_CHARACTERS]


def create(connection: sqlite3.Connection) -> None:
    """As the schema has it."""
    columns = f"scope, said, tool, content = '', tokenize = '{TOKENIZER}'"
    connection.execute(f"CREATE VIRTUAL TABLE message_index USING fts5 ({columns})")


def index_in_memory(entries: Iterable[Entry]) -> sqlite3.Connection:
    """An index of the same kind for a handful of messages, gone when it is closed."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create(connection)
    connection.execute("BEGIN")
    for entry in entries:
        add(connection, entry)
    connection.execute("COMMIT")
    return connection


def person_token(person: str) -> str:
    return _token(b"person", person)


def conversation_token(conversation_id: str) -> str:
    return _token(b"conversation", conversation_id)


def _token(kind: bytes, name: str) -> str:
    """A number stands for the name: the tokenizer would take a name apart and look for its stem."""
    digest = blake2b(name.encode(), digest_size=8, person=kind).digest()
    return str(int.from_bytes(digest, "big"))


log = structlog.get_logger(__name__)

PAUSE_SECONDS = 0.1
"""Between something new and the first step, and between steps while others are writing."""


class Indexer:
    def __init__(self, writer: Writer, progress: Callable[[], Awaitable[Progress]]) -> None:
        self._writer = writer
        self._progress = progress
        self._news = asyncio.Event()
        self._news.set()  # a crash may have left something to do
        self._one_at_a_time = asyncio.Lock()
        self._failures = 0
        self._task = asyncio.create_task(self._follow(), name="store-indexer")

    def wake(self) -> None:
        """Something was stored."""
        self._news.set()

    async def catch_up(self) -> None:
        """All that is stored by now is in the index when this returns, unless nothing can be written.

        Then a search goes through the rest by itself. It waits for one attempt and not for those of others.
        """
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
            await self._news.wait()
            await asyncio.sleep(PAUSE_SECONDS)
            self._news.clear()
            try:
                await self._catch_up_gently()
            except StoreError as error:
                # Nothing is lost: the next message or search tries again.
                log.warning("store.index_failed", error=str(error))

    async def _catch_up_gently(self) -> None:
        """Back to back while nobody else writes, one step at a time while somebody does."""
        indexed, stored = await self._progress()
        while indexed < stored:
            indexed = await self._step()
            if self._writer.last_shared:
                await asyncio.sleep(PAUSE_SECONDS)

    async def _step(self, *, unless_failed_since: int | None = None) -> int:
        async with self._one_at_a_time:  # or ten searches at once would make one long transaction
            if unless_failed_since not in (None, self._failures):
                return 0
            try:
                return await self._writer.write(advance, durable=False)  # it can be made again
            except StoreError:
                self._failures += 1
                raise


PROBES = 50
"""Messages that are looked up by their words."""

_TABLES = ("message_index_data", "message_index_idx", "message_index_docsize", "message_index_config")
"""Where FTS5 keeps the index: ordinary tables, whatever state the index is in."""

UNREADABLE = (sqlite3.DatabaseError, MemoryError)
"""A damaged block can name a length for which no memory suffices."""

_SETTINGS = {"automerge": 0, "crisismerge": 1000}
"""As in the migration that made the index."""


def index_damage(connection: sqlite3.Connection) -> str | None:
    """What is wrong with the index, if anything. Only reads, so nobody who writes waits for it."""
    connection.execute("BEGIN")  # one view of both, while others write
    try:
        return _unlike_the_messages(connection) or _broken_inside(connection) or _finds_too_little(connection)
    except UNREADABLE as error:  # a table of it is missing, or cannot be read
        return str(error) or "out of memory"
    finally:
        connection.execute("ROLLBACK")


def rebuild_index(connection: sqlite3.Connection) -> int:
    """From the messages, in steps that let others write in between. How many there are."""
    commit_together(connection, [_make_empty])
    while (so_far := progress(connection)).indexed < so_far.stored:
        commit_together(connection, [advance])
        report("Building the search index", *progress(connection))
    (count,) = connection.execute("SELECT count(*) FROM message_index_docsize").fetchone()
    return int(count)


def _unlike_the_messages(connection: sqlite3.Connection) -> str | None:
    row = connection.execute("SELECT seq FROM index_progress").fetchone()
    if row is None:
        return "its note of how far it reaches is missing"
    indexed, stored = progress(connection)
    if indexed > stored:
        return f"it claims to reach message {indexed}, and the last one is {stored}"
    said = "SELECT seq FROM messages WHERE kind = 'said' AND seq <= ?"
    (missing,) = connection.execute(
        f"SELECT count(*) FROM ({said}) WHERE seq NOT IN (SELECT id FROM message_index_docsize)", (indexed,)
    ).fetchone()
    if missing:
        return f"{missing} messages are missing from it"
    (surplus,) = connection.execute(
        f"SELECT count(*) FROM message_index_docsize WHERE id NOT IN ({said})", (indexed,)
    ).fetchone()
    return f"{surplus} of its entries belong to no message" if surplus else None


def _broken_inside(connection: sqlite3.Connection) -> str | None:
    """FTS5 looks itself over, in a copy: it does so by way of an INSERT, for which every writer would have to wait."""
    with TemporaryDirectory(prefix="hermes-index-") as directory:
        copy = Path(directory) / "index.db"
        with closing(sqlite3.connect(copy, isolation_level=None)) as filled:
            filled.execute("PRAGMA journal_mode = OFF")
            create(filled)
            _fill(connection, filled)
        # A second connection, because the first remembers an empty index.
        with closing(sqlite3.connect(copy, isolation_level=None)) as looked_at:
            try:
                looked_at.execute("INSERT INTO message_index (message_index) VALUES ('integrity-check')")
            except UNREADABLE as error:
                return str(error) or "out of memory"
    return None


def _fill(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    target.execute("BEGIN")
    for table in _TABLES:
        rows = source.execute(f"SELECT * FROM {table}")
        places = ", ".join("?" * len(rows.description))
        target.execute(f"DELETE FROM {table}")
        target.executemany(f"INSERT INTO {table} VALUES ({places})", rows)
    target.execute("COMMIT")


def _finds_too_little(connection: sqlite3.Connection) -> str | None:
    """An index can be sound and wrong all the same."""
    for seq, text in _probes(connection):
        words = parse_query(text).words[:3]
        wanted = " AND ".join(map(quoted, words))
        if (
            words
            and not connection.execute(
                "SELECT 1 FROM message_index WHERE message_index MATCH ? AND rowid = ?", (wanted, seq)
            ).fetchone()
        ):
            return f"it does not find message {seq} by its words"
    return None


def _probes(connection: sqlite3.Connection) -> Iterator[tuple[int, str]]:
    """From beginning to end at even distances."""
    indexed, _ = progress(connection)
    for seq in range(0, indexed, max(1, indexed // PROBES)):
        entry = next(entries_after(connection, seq), None)
        if entry and entry.seq <= indexed:
            yield entry.seq, searched_text(entry)


def _make_empty(connection: sqlite3.Connection) -> None:
    """By way of its tables: FTS5 itself refuses to open, let alone to drop, an index that is damaged enough."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        create(fresh)
        for setting, value in _SETTINGS.items():
            fresh.execute("INSERT INTO message_index (message_index, rank) VALUES (?, ?)", (setting, value))
        for table in _TABLES:
            (definition,) = fresh.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
            connection.execute(definition.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1))
            rows = fresh.execute(f"SELECT * FROM {table}").fetchall()
            connection.execute(f"DELETE FROM {table}")
            for row in rows:
                connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    connection.execute("DELETE FROM index_progress")
    connection.execute("INSERT INTO index_progress (singleton, seq) VALUES (1, 0)")
