# ruff: noqa: S608 - only our own lists of columns are put into the SQL; values are always bound
"""`ConversationReports` in SQL: lists, transcripts and the session tree of conversations."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any

from agent.errors import NotFound
from agent.messages import Message
from agent.store import Compaction, Conversation, SearchHit
from gateway.store.reports import (
    CompactionDiff,
    ContextSample,
    ConversationPage,
    ConversationRow,
    FilterOptions,
    SessionInfo,
    TranscriptPage,
)
from gateway.store.sql import reads
from gateway.store.sql.database import Connection, Part, Scope, batches, marks, read
from gateway.store.sql.rows import (
    CONVERSATION_COLUMNS,
    MESSAGE_COLUMNS,
    conversation_from,
    messages_from,
    place_from,
    title_from,
)
from gateway.types import Place

_MAX_EXTRA_RESULTS = 50
"""How many tool results at the end of a page are shown beyond its limit."""

_ROWS = f"""
    WITH listed AS (
        SELECT {CONVERSATION_COLUMNS}, {reads.LAST_SEQ} AS last_seq FROM conversations WHERE id IN ({{ids}})
    )
    SELECT {reads.LISTED_COLUMNS},
        coalesce(
            (SELECT prompt_tokens FROM sessions WHERE sessions.id = live_session_id),
            (SELECT tokens_after FROM compactions WHERE session_id = live_session_id)
        ),
        (
            SELECT coalesce(sum(cost_usd), 0.0) FROM sessions JOIN model_calls ON session_id = sessions.id
            WHERE conversation_id = listed.id
        ),
        (
            SELECT count(*) - count(cost_usd) FROM sessions JOIN model_calls ON session_id = sessions.id
            WHERE conversation_id = listed.id
        ),
        {reads.UPDATED_AT}
    FROM listed
"""

_MESSAGES_UP_TO = f"""
    {reads.ANCESTRY}
    SELECT seq FROM messages
    WHERE session_id IN (SELECT session_id FROM ancestry) AND kind = 'said'
"""

_REMOVED = """
    FROM (
        SELECT position AS place, message_seq FROM session_context WHERE session_id = :parent
        UNION ALL
        SELECT seq, seq FROM messages WHERE session_id = :parent AND kind = 'said' AND created_at <= :at
    ) AS before JOIN messages ON seq = message_seq
    WHERE kind <> 'note' AND coalesce(source_id, id) NOT IN (
        SELECT coalesce(source_id, id) FROM session_context JOIN messages ON seq = message_seq
        WHERE session_context.session_id = :child
    )
"""
"""Messages in the context of the parent of which the child has neither the original nor a truncated copy."""


def _page(
    connection: Connection, *, person: str | None, platform: str | None, first: int, limit: int
) -> ConversationPage:
    """Return a page of conversations; only the rows on the page are read."""
    condition, values = reads.conversation_filter(person, platform)
    active = connection.execute(
        f"SELECT {reads.LAST_SEQ} AS last_seq, seq, id FROM conversations WHERE {condition}", values
    )
    newest = sorted((row for row in active if row[0] is not None), reverse=True)
    ids = [conversation_id for _, _, conversation_id in newest[first : first + limit]]
    described = _rows(connection, ids)
    return ConversationPage([described[each] for each in ids], len(newest))


def _rows(connection: Connection, conversation_ids: Sequence[str]) -> dict[str, ConversationRow]:
    return {
        row[0]: _row_from(row)
        for batch in batches(conversation_ids)
        for row in connection.execute(_ROWS.format(ids=marks(batch)), batch)
    }


def _row_from(row: tuple[Any, ...]) -> ConversationRow:
    *conversation, title, messages, sessions, tokens, usd, unpriced, updated_at = row
    return ConversationRow(
        conversation_from(tuple(conversation)),
        title_from(title),
        messages,
        sessions,
        tokens,
        usd,
        unpriced,
        updated_at,
    )


def _filter_options(connection: Connection) -> FilterOptions:
    """Return the filter options. People are named by service, so the name of a bot (`telegram/work`) is cut off."""
    platforms = connection.execute("SELECT DISTINCT platform FROM conversations ORDER BY platform").fetchall()
    names = {
        f"{platform.partition('/')[0]}:{user_id}": name
        for platform, user_id, name in connection.execute("SELECT platform, user_id, name FROM people")
    }
    people = connection.execute("SELECT DISTINCT person FROM conversations ORDER BY person").fetchall()
    return FilterOptions([name for (name,) in platforms], [(key, names.get(key) or key) for (key,) in people])


def _last_seq(connection: Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(seq), 0) FROM messages").fetchone()[0])


def _version(connection: Connection, conversation_id: str) -> tuple[object, ...]:
    row = connection.execute(
        f"""
        SELECT live_session_id, {reads.LAST_SEQ},
            (SELECT count(*) FROM sessions WHERE conversation_id = conversations.id),
            (SELECT prompt_tokens FROM sessions WHERE sessions.id = live_session_id)
        FROM conversations WHERE id = ?
        """,
        (conversation_id,),
    ).fetchone()
    if row is None:
        raise NotFound(f"({conversation_id})")
    return tuple(row)


def _transcript_page(
    connection: Connection, session_id: str, *, first: int | None, limit: int
) -> TranscriptPage:
    """Return a page of messages; the index selects them before any is read."""
    (total,) = connection.execute(
        f"SELECT count(*) FROM ({_MESSAGES_UP_TO}) AS said", (session_id,)
    ).fetchone()
    first = max(1, total - limit + 1) if first is None else first
    rows = connection.execute(
        f"SELECT {MESSAGE_COLUMNS} FROM messages "
        f"WHERE seq IN ({_MESSAGES_UP_TO} ORDER BY seq LIMIT ? OFFSET ?) ORDER BY seq",
        (session_id, limit + _MAX_EXTRA_RESULTS, first - 1),
    )
    found = messages_from(rows)
    early = len(list(takewhile(_is_result, found))) if first > 1 else 0
    late = takewhile(_is_result, found[limit:])
    return TranscriptPage([*found[early:limit], *late], first + early, total)


def _is_result(message: Message) -> bool:
    return message.role == "tool"


def _locate_message(connection: Connection, conversation_id: str, message_id: str) -> tuple[str, int]:
    live = reads.conversation(connection, conversation_id).live_session_id
    row = connection.execute(
        """
        SELECT messages.seq, session_id FROM messages JOIN sessions ON sessions.id = session_id
        WHERE messages.id = ? AND conversation_id = ? AND kind = 'said'
        """,
        (message_id, conversation_id),
    ).fetchone()
    if row is None:
        raise NotFound(f"({message_id})")
    seq, own = row
    leads_there = connection.execute(
        f"{reads.ANCESTRY} SELECT 1 FROM ancestry WHERE session_id = ?", (live, own)
    ).fetchone()
    session_id = live if leads_there else own
    (before,) = connection.execute(
        f"SELECT count(*) FROM ({_MESSAGES_UP_TO} AND seq < ?) AS said", (session_id, seq)
    ).fetchone()
    return session_id, before + 1


def _sessions(connection: Connection, conversation_id: str) -> list[SessionInfo]:
    """Return the sessions without their system prompts, which are long."""
    reads.conversation(connection, conversation_id)
    rows = connection.execute(
        """
        SELECT sessions.id, parent_id, reason, sessions.created_at, sessions.engine, model, prompt_tokens,
            (SELECT count(*) FROM messages WHERE session_id = sessions.id AND kind = 'said'),
            trigger IS NOT NULL AND EXISTS (
                SELECT 1 FROM session_context JOIN messages ON messages.seq = message_seq
                WHERE session_context.session_id = sessions.id AND messages.session_id = sessions.id
                    AND kind = 'summary'
            ),
            trigger, compactions.engine, messages_before, messages_after, tokens_before, tokens_after, focus,
            seconds, cost_usd, outcome
        FROM sessions LEFT JOIN compactions ON session_id = sessions.id
        WHERE conversation_id = ? ORDER BY sessions.seq
        """,
        (conversation_id,),
    ).fetchall()
    return [_session_from(row) for row in rows]


def _session_from(row: tuple[Any, ...]) -> SessionInfo:
    """Decode a row; the trigger, the first column of the compaction, is NULL if there was none."""
    session_id, parent_id, reason, created_at, engine, model, tokens, said, has_summary, *compaction = row
    done = None if compaction[0] is None else Compaction(*compaction)
    return SessionInfo(
        session_id, parent_id, reason, created_at, engine, model, tokens, said, done, bool(has_summary)
    )


def _context_samples(connection: Connection, session_id: str) -> list[ContextSample]:
    rows = connection.execute(
        f"""
        {reads.ANCESTRY}
        SELECT session_id, created_at, prompt_tokens FROM ancestry JOIN model_calls USING (session_id)
        WHERE purpose = 'turn' AND prompt_tokens > 0 ORDER BY depth DESC, seq
        """,
        (session_id,),
    ).fetchall()
    return [ContextSample(*row) for row in rows]


def _compaction_diff(connection: Connection, session_id: str, *, first: int, limit: int) -> CompactionDiff:
    child = reads.session(connection, session_id)
    named = {"child": child.id, "parent": child.parent_id, "at": child.created_at}
    written = messages_from(
        connection.execute(
            f"""
            SELECT {MESSAGE_COLUMNS}
            FROM (SELECT position, message_seq FROM session_context WHERE session_id = :child) AS context
            JOIN messages ON seq = message_seq
            WHERE session_id = :child AND kind IN ('summary', 'pruned') ORDER BY position
            """,
            named,
        )
    )
    (in_all,) = connection.execute(
        "SELECT count(*) FROM session_context WHERE session_id = ?", (child.id,)
    ).fetchone()
    total, characters = connection.execute(
        f"SELECT count(*), coalesce(sum(length(content) + coalesce(length(tool_calls), 0)), 0) {_REMOVED}",
        named,
    ).fetchone()
    rows = connection.execute(
        f"SELECT {MESSAGE_COLUMNS} {_REMOVED} ORDER BY place LIMIT :limit OFFSET :first",
        {**named, "limit": limit, "first": first - 1},
    )
    left = TranscriptPage(messages_from(rows), first, total)
    originals = [
        original
        for batch in batches([message.source_id for message in written if message.source_id])
        for original in messages_from(
            connection.execute(f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE id IN ({marks(batch)})", batch)
        )
    ]
    return CompactionDiff(written, in_all - len(written), left, characters, originals)


def _reply_place(connection: Connection, conversation: Conversation) -> Place | None:
    address = conversation.address
    rows = connection.execute(
        "SELECT place FROM inbox WHERE platform = ? AND place IS NOT NULL GROUP BY place ORDER BY max(seq) DESC",
        (address.platform,),
    )
    for (stored,) in rows:
        with suppress(ValueError):  # a damaged row
            place = place_from(stored)
            if (place.chat_id, place.thread_id) == (address.chat_id, address.thread_id):
                return place
    return None


class SqlConversationReports(Part):
    page = read(_page)
    rows = read(_rows)
    filter_options = read(_filter_options)
    last_seq = read(_last_seq)
    version = read(_version)
    transcript_page = read(_transcript_page)
    locate_message = read(_locate_message)
    sessions = read(_sessions)
    context_samples = read(_context_samples)
    compaction_diff = read(_compaction_diff)
    reply_place = read(_reply_place)

    async def search(
        self, text: str, *, person: str | None, platform: str | None, limit: int
    ) -> list[SearchHit]:
        return await self._database.search(text, Scope(person), limit, platform=platform)
