# ruff: noqa: S608 - only names of our own tables and columns are put into the SQL; values are always bound
"""Imports of conversations, each in one transaction and with its original times, and exports of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agent.errors import NotFound
from agent.messages import Message
from agent.store import Conversation, Overview, Session
from gateway.errors import ImportRefused
from gateway.store.errors import translated
from gateway.store.import_types import ImportedConversation, ImportedSession, ImportResult
from gateway.store.sql import reads
from gateway.store.sql.database import Connection, Part, batches, marks, read, write
from gateway.store.sql.rows import MESSAGE_COLUMNS, check_appended, messages_from
from gateway.store.sql.writes import append, insert_context, insert_conversation, insert_session


def _preview(connection: Connection, imported: ImportedConversation) -> ImportResult:
    return _compare(connection, imported, _known(connection, imported))


def _known(connection: Connection, imported: ImportedConversation) -> set[str]:
    return reads.known(connection, [message.id for message in imported.messages])


def _compare(connection: Connection, imported: ImportedConversation, known: set[str]) -> ImportResult:
    for session in imported.sessions:
        _check_order(connection, session, known)
    is_new = _live_session(connection, imported.id) is None
    return ImportResult(imported.id, is_new, len(imported.messages) - len(known), len(known))


def _add(connection: Connection, imported: ImportedConversation) -> ImportResult:
    known = _known(connection, imported)
    found = _compare(connection, imported, known)
    live = _live_session(connection, imported.id)
    if live is None:
        started = imported.sessions[0].created_at
        conversation = Conversation(
            imported.id, imported.address, imported.person, imported.live_session_id, started
        )
        insert_conversation(connection, conversation)
        stored: set[str] = set()
    else:
        stored = {session.id for session in reads.sessions(connection, imported.id)}
    for session in imported.sessions:
        if session.id not in stored:
            _insert(connection, imported, session)
        check_appended(session.messages)
        append(connection, session.id, [message for message in session.messages if message.id not in known])
    ours = {session.id for session in imported.sessions}
    # The conversation continued in the source, and it was not moved to another session here.
    if live in ours and live != imported.live_session_id:
        reads.session(connection, imported.live_session_id)
        connection.execute(
            "UPDATE conversations SET live_session_id = ? WHERE id = ?",
            (imported.live_session_id, imported.id),
        )
    return found


def _insert(connection: Connection, imported: ImportedConversation, session: ImportedSession) -> None:
    row = Session(
        session.id,
        imported.id,
        session.parent_id,
        session.reason,
        session.created_at,
        model=session.model,
    )
    insert_session(connection, row)
    new = [message for message in session.context if isinstance(message, Message)]
    append(connection, session.id, new)
    ids = [entry if isinstance(entry, str) else entry.id for entry in session.context]
    insert_context(connection, row, ids)


def _check_order(connection: Connection, session: ImportedSession, known: set[str]) -> None:
    """Refuse messages older than stored ones: the order of stored messages does not change."""
    are_known = [message.id in known for message in session.messages]
    is_in_order = are_known == sorted(are_known, reverse=True)
    if session.messages and not any(are_known):
        (newest,) = connection.execute(
            "SELECT max(created_at) FROM messages WHERE session_id = ? AND kind = 'said'", (session.id,)
        ).fetchone()
        is_in_order = newest is None or newest <= session.messages[0].created_at
    if not is_in_order:
        raise ImportRefused(
            "it contains messages that are older than imported ones, and messages cannot be inserted between them. "
            "Import the older file first, into a new state directory."
        )


def _live_session(connection: Connection, conversation_id: str) -> str | None:
    try:
        return reads.conversation(connection, conversation_id).live_session_id
    except NotFound:
        return None


class SqlImports(Part):
    add = write(_add)
    preview = read(_preview)


class SqlSnapshot:
    """One read transaction over the whole database."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def conversations(
        self, *, person: str | None = None, platform: str | None = None, since: float = 0.0
    ) -> list[Overview]:
        """Return conversations with messages since then, the one with the oldest activity first."""
        with translated():
            found = reads.conversations(
                self._connection, person=person, platform=platform, limit=reads.NO_LIMIT
            )
        return [each for each in reversed(found) if each.messages and each.updated_at >= since]

    def sessions(self, conversation_id: str) -> list[Session]:
        with translated():
            return reads.sessions(self._connection, conversation_id)

    def messages(
        self, conversation_id: str, *, since: float = 0.0, every_session: bool = False
    ) -> Iterator[Message]:
        """Yield the messages of the live session and its ancestors, or of `every_session`, oldest first."""
        with translated():
            seqs = self._seqs(conversation_id, since, every_session=every_session)
        for batch in batches(seqs):
            with translated():
                rows = self._connection.execute(
                    f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE seq IN ({marks(batch)}) ORDER BY seq",
                    batch,
                )
                messages = messages_from(rows)
            yield from messages

    def _seqs(self, conversation_id: str, since: float, *, every_session: bool) -> list[int]:
        live = reads.conversation(self._connection, conversation_id).live_session_id
        ancestry = f"{reads.ANCESTRY} SELECT session_id FROM ancestry"
        whole = "SELECT id FROM sessions WHERE conversation_id = ?"
        rows = self._connection.execute(
            f"""
            SELECT seq FROM messages
            WHERE session_id IN ({whole if every_session else ancestry}) AND kind = 'said' AND created_at >= ?
            ORDER BY seq
            """,
            (conversation_id if every_session else live, since),
        )
        return [seq for (seq,) in rows]


class SqlExport(Part):
    """Opens snapshots, each on a connection of its own that belongs to the calling thread."""

    @contextmanager
    def snapshot(self) -> Iterator[SqlSnapshot]:
        with self._database.snapshot() as connection:
            yield SqlSnapshot(connection)
