# ruff: noqa: S608 - only our own lists of columns are put into the SQL; values are always bound
"""A search from the words somebody typed to the messages they get."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from agent.fts_text import Query, parse_query
from agent.messages import Message
from agent.store import SearchHit
from gateway.store import reads
from gateway.store.index import entries_after, index_in_memory, progress
from gateway.store.rows import MESSAGE_COLUMNS, messages_from
from gateway.store.rules import storable
from gateway.store.search import SCORED, Match, Scope, find
from gateway.store.snippets import snippets


def search(
    connection: sqlite3.Connection, text: str, scope: Scope, limit: int, platform: str | None = None
) -> list[SearchHit]:
    """Misses nothing that is stored, whether the index has come to it or not."""
    if scope.conversation_id is not None:
        reads.conversation(connection, scope.conversation_id)
    query = parse_query(storable(text))
    looked_at = limit if platform is None else SCORED
    matches = find(connection, query, scope, looked_at) + _find_in_tail(connection, query, scope, looked_at)
    if platform is not None:
        there = _on_platform(connection, matches, platform)
        matches = [match for match in matches if match.seq in there]
    return _hits(connection, sorted(matches)[: max(limit, 0)], query)


def _on_platform(connection: sqlite3.Connection, matches: list[Match], platform: str) -> set[int]:
    """The index does not know it."""
    rows = connection.execute(
        """
        SELECT messages.seq FROM messages JOIN sessions ON sessions.id = session_id
        JOIN conversations ON conversations.id = conversation_id
        WHERE messages.seq IN (SELECT value FROM json_each(?)) AND platform = ?
        """,
        (json.dumps([match.seq for match in matches]), platform),
    )
    return {seq for (seq,) in rows}


def _find_in_tail(connection: sqlite3.Connection, query: Query, scope: Scope, limit: int) -> list[Match]:
    """What the index has not come to yet. A reader cannot bring it up to date, so it makes one of its own."""
    indexed, stored = progress(connection)
    if indexed >= stored:
        return []
    with closing(index_in_memory(entries_after(connection, indexed))) as tail:
        return find(tail, query, scope, limit)


def _hits(connection: sqlite3.Connection, matches: list[Match], query: Query) -> list[SearchHit]:
    rows = connection.execute(
        f"""
        SELECT {MESSAGE_COLUMNS}, seq, (SELECT conversation_id FROM sessions WHERE id = messages.session_id)
        FROM messages WHERE seq IN (SELECT value FROM json_each(?))
        """,
        (json.dumps([match.seq for match in matches]),),
    ).fetchall()
    found: dict[int, tuple[Message, str]] = {
        seq: (message, conversation_id)
        for message, (*_, seq, conversation_id) in zip(messages_from(rows), rows, strict=True)
    }
    shown = snippets({seq: message.content for seq, (message, _) in found.items()}, query)
    return [SearchHit(*found[match.seq], shown[match.seq]) for match in matches]
