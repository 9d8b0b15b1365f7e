"""Imports of conversations in SQLite, each in one transaction and with its original times."""

from __future__ import annotations

import sqlite3

from agent.errors import NotFound
from agent.messages import Message
from agent.store import Conversation, Session
from gateway.errors import ImportRefused
from gateway.store.import_types import ImportedConversation, ImportedSession, ImportResult
from gateway.store.sqlite import reads
from gateway.store.sqlite.database import Database
from gateway.store.sqlite.validation import check_appended
from gateway.store.sqlite.writes import append, insert_context, insert_conversation, insert_session


class SqliteImports:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, imported: ImportedConversation) -> ImportResult:
        return await self._database.write(_add, imported, fence=None)

    async def preview(self, imported: ImportedConversation) -> ImportResult:
        return await self._database.read(_preview, imported)


def _preview(connection: sqlite3.Connection, imported: ImportedConversation) -> ImportResult:
    return _compare(connection, imported, _known(connection, imported))


def _known(connection: sqlite3.Connection, imported: ImportedConversation) -> set[str]:
    return reads.known(connection, [message.id for message in imported.messages])


def _compare(connection: sqlite3.Connection, imported: ImportedConversation, known: set[str]) -> ImportResult:
    for session in imported.sessions:
        _check_order(connection, session, known)
    is_new = _live_session(connection, imported.id) is None
    return ImportResult(imported.id, is_new, len(imported.messages) - len(known), len(known))


def _add(connection: sqlite3.Connection, imported: ImportedConversation) -> ImportResult:
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


def _insert(connection: sqlite3.Connection, imported: ImportedConversation, session: ImportedSession) -> None:
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


def _check_order(connection: sqlite3.Connection, session: ImportedSession, known: set[str]) -> None:
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


def _live_session(connection: sqlite3.Connection, conversation_id: str) -> str | None:
    try:
        return reads.conversation(connection, conversation_id).live_session_id
    except NotFound:
        return None
