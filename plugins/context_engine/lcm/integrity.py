# ruff: noqa: S608 - only names of tables and columns are put into the SQL
"""Integrity checks of the database: eight of its contents, two of the file. They only read.

Most checks are queries that find damaged rows, each with a sentence about such a row.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from sqlite3 import Connection, Cursor, DatabaseError

from agent.tokens import estimate_text_tokens

from .messages import scope_of
from .stats import LEFTOVER_SUMMARIES

_SHOWN = 5
_SLACK_TOKENS = 16
_SLACK_SHARE = 0.10

Check = Callable[[Connection, int | None], Iterator[str]]
"""Yields a sentence for each problem of one conversation, or of all."""

_RESTORE = "Restore a backup with `hermes restore`, or go on: everything else can still be read."
_STORED_AGAIN = "Send a message: that stores the context again."
_HARMLESS = "Nothing is lost, and nothing needs to be done."


@dataclass(frozen=True, slots=True)
class Problem:
    check: str
    what: str
    advice: str


def check(connection: Connection, conversation: int | None = None, *, file: bool = True) -> list[Problem]:
    """Check one conversation, or all. Without `file`, skip the check that is slow in a large database."""
    problems: list[Problem] = []
    for name, (run, advice) in CHECKS.items():
        if name == FILE and not file:
            continue
        try:
            findings = list(run(connection, conversation))
        except DatabaseError as error:
            what = f"The database could not be read for this check: {error}."
            problems.append(Problem(name, what, _RESTORE))
            continue
        problems += [Problem(name, finding, advice) for finding in findings[:_SHOWN]]
        if len(findings) > _SHOWN:
            others = f"And {len(findings) - _SHOWN:,} more of this kind."
            problems.append(Problem(name, others, advice))
    return problems


def _rows(
    connection: Connection, query: str, conversation: int | None, column: str = "conversation"
) -> Cursor:
    """Run a query for one conversation or for all. `{only}` in the query is the condition on the column."""
    only = "TRUE" if conversation is None else f"{column} = :conversation"
    return connection.execute(query.format(only=only), {"conversation": conversation})


def _query_check(*queries: tuple[str, str, str]) -> Check:
    """Make a check of queries, each with its column of the conversation and the sentence about a row."""

    def run(connection: Connection, conversation: int | None) -> Iterator[str]:
        for query, column, sentence in queries:
            for row in _rows(connection, query, conversation, column):
                yield sentence.format(**dict(row))

    return run


_conversation_exists = _query_check(
    *(
        (
            "SELECT conversation, count(*) AS number FROM "
            f"{table} WHERE {{only}} AND conversation NOT IN (SELECT key FROM conversations) GROUP BY conversation",
            "conversation",
            f"{{number:,}} rows of `{table}` belong to conversation c{{conversation}}, which does not exist.",
        )
        for table in ("messages", "summaries", "sessions", "written", "meanings")
    )
)

_context_positions = _query_check(
    (
        "SELECT sessions.id, count(*) AS number, min(position) AS first, max(position) AS last "
        "FROM context_items JOIN sessions ON sessions.key = session WHERE {only} "
        "GROUP BY session HAVING first <> 0 OR last <> number - 1",
        "sessions.conversation",
        "The context of session {id} has {number:,} entries at the positions {first} to {last}.",
    )
)

_message_sequence = _query_check(
    (
        "SELECT conversation, count(*) AS number, min(seq) AS first, max(seq) AS last FROM messages "
        "WHERE {only} GROUP BY conversation HAVING first <> 1 OR last <> number",
        "conversation",
        "Conversation c{conversation} has {number:,} messages, numbered m{first} to m{last}.",
    )
)

_sources = _query_check(
    (
        "SELECT key, depth, CASE "
        "WHEN depth = 0 AND children THEN 'covers ' || children || ' summaries, but should cover messages only' "
        "WHEN depth = 0 AND NOT messages THEN 'covers no message' "
        "WHEN depth AND messages THEN 'covers ' || messages || ' messages, but should cover summaries only' "
        "WHEN depth AND NOT children THEN 'covers no summary' "
        "WHEN depth AND depth <> highest + 1 THEN 'covers a summary of depth ' || highest "
        "END AS problem FROM ("
        "SELECT key, depth, (SELECT count(*) FROM summary_messages WHERE summary = key) AS messages, "
        "(SELECT count(*) FROM summary_children WHERE parent = key) AS children, "
        "(SELECT max(below.depth) FROM summary_children JOIN summaries AS below ON below.key = child "
        "WHERE parent = summaries.key) AS highest "
        "FROM summaries WHERE {only}) WHERE problem IS NOT NULL",
        "conversation",
        "Summary s{key} (depth {depth}) {problem}.",
    )
)

_CONTEXTS = "context_items JOIN sessions AS owner ON owner.key = session"
_LEAVES = "summary_messages JOIN summaries AS owner ON owner.key = summary"
_PARENTS = "summary_children JOIN summaries AS owner ON owner.key = parent"
_RECORDS = "written_summaries JOIN written AS owner ON owner.key = written_summaries.written"
_references_within = _query_check(
    *(
        (
            f"SELECT {column} AS reference, CASE WHEN there.key IS NULL THEN 'does not exist' "
            "ELSE 'belongs to conversation c' || there.conversation END AS state "
            f"FROM {source} LEFT JOIN {target} AS there ON there.key = {column} "
            f"WHERE {{only}} AND {column} IS NOT NULL AND there.conversation IS NOT owner.conversation",
            "owner.conversation",
            f"{what} refers to {kind} {{reference}}, which {{state}}.",
        )
        for what, source, column, target, kind in (
            ("A context", _CONTEXTS, "context_items.message", "messages", "message"),
            ("A context", _CONTEXTS, "context_items.summary", "summaries", "summary"),
            ("A summary", _LEAVES, "summary_messages.message", "messages", "message"),
            ("A summary", _PARENTS, "summary_children.child", "summaries", "summary"),
            ("A record", _RECORDS, "written_summaries.summary", "summaries", "summary"),
            ("A digest", "written AS owner", "owner.message", "messages", "message"),
        )
    )
)
_owners_exist = _query_check(
    *(
        (
            f"SELECT {column} AS owner FROM {table} WHERE {{only}} AND {column} NOT IN (SELECT key FROM {owner})",
            "",
            f"A row of `{table}` belongs to {kind} {{owner}}, which does not exist.",
        )
        for table, column, owner, kind in (
            ("context_items", "session", "sessions", "session"),
            ("compactions", "session", "sessions", "session"),
            ("summary_messages", "summary", "summaries", "summary"),
            ("summary_children", "parent", "summaries", "summary"),
            ("written_summaries", "written", "written", "text"),
        )
    )
)


def _references(connection: Connection, conversation: int | None) -> Iterator[str]:
    """Check that every reference points to a row of the same conversation."""
    yield from _references_within(connection, conversation)
    if conversation is None:  # rows without an owner belong to no conversation
        yield from _owners_exist(connection, None)


def _orphans(connection: Connection, conversation: int | None) -> Iterator[str]:
    """Check that each summary is in a context, in a record, below another summary, or recent."""
    for (key,) in _rows(connection, "SELECT key FROM conversations WHERE {only}", conversation, "key"):
        for (summary,) in connection.execute(LEFTOVER_SUMMARIES, {"conversation": key}):
            yield f"Summary s{summary} is in no context and below no other summary."


_COUNTED = (
    *("source_tokens", "message_tokens", "message_count"),
    *("first_seq", "last_seq", "earliest", "latest"),
)
_counts_of_sources = _query_check(
    *(
        (
            f"SELECT summaries.key FROM summaries {sources} WHERE {{only}} GROUP BY summaries.key "
            f"HAVING ({', '.join(f'summaries.{name}' for name in _COUNTED)}) <> ({counted})",
            "summaries.conversation",
            "Summary s{key} has other counts than its sources.",
        )
        for sources, counted in (
            (
                "JOIN summary_messages ON summary = summaries.key JOIN messages AS m ON m.key = message",
                "sum(m.tokens), sum(m.tokens), count(*), min(m.seq), max(m.seq), min(m.said_at), max(m.said_at)",
            ),
            (
                "JOIN summary_children ON parent = summaries.key JOIN summaries AS s ON s.key = child",
                "sum(s.tokens), sum(s.message_tokens), sum(s.message_count), min(s.first_seq), max(s.last_seq), "
                "min(s.earliest), max(s.latest)",
            ),
        )
    )
)


def _token_counts(connection: Connection, conversation: int | None) -> Iterator[str]:
    """Check the counts that a summary keeps about itself and its sources."""
    query = "SELECT key, content, topics, tokens FROM summaries WHERE {only} ORDER BY key"
    for row in _rows(connection, query, conversation):
        least = estimate_text_tokens(row["content"])
        most = least + estimate_text_tokens(row["topics"])
        slack = _SLACK_TOKENS + most * _SLACK_SHARE
        if not least - slack <= row["tokens"] <= most + slack:
            yield f"Summary s{row['key']} counts {row['tokens']:,} tokens and has about {least:,}."
    yield from _counts_of_sources(connection, conversation)


_repeated_sources = _query_check(
    *(
        (
            f"SELECT key FROM summaries JOIN {table} ON {owner} = key WHERE {{only}} "
            f"GROUP BY key HAVING count(*) > count(DISTINCT {source})",
            "conversation",
            f"Summary s{{key}} covers the same {kind} more than once.",
        )
        for table, owner, source, kind in (
            ("summary_messages", "summary", "message", "message"),
            ("summary_children", "parent", "child", "summary"),
        )
    )
)


def _duplicates(connection: Connection, conversation: int | None) -> Iterator[str]:
    """Check that no summary and no context holds the same message twice.

    Contexts are compared by leaves, not by messages, because each session has a context.
    """
    yield from _repeated_sources(connection, conversation)
    leaves_of: dict[int, set[int]] = defaultdict(set)
    query = "SELECT message, summary FROM summary_messages JOIN summaries ON key = summary WHERE {only}"
    for message, leaf in _rows(connection, query, conversation):
        leaves_of[message].add(leaf)
    overlapping = [leaves for leaves in leaves_of.values() if len(leaves) > 1]
    below: dict[int, list[int]] = defaultdict(list)
    # A child has a smaller key than its parent; any other child is damage and could form a cycle.
    query = (
        "SELECT parent, child FROM summary_children JOIN summaries ON key = parent WHERE {only} AND child < parent "
        "GROUP BY parent, child ORDER BY parent"
    )
    for parent, child in _rows(connection, query, conversation):
        below[parent] += below.get(child, [child])
    query = (
        "SELECT session, sessions.id, message, summary FROM context_items JOIN sessions ON sessions.key = session "
        "WHERE {only} ORDER BY session, position"
    )
    items = _rows(connection, query, conversation, "sessions.conversation")
    for (_, name), rows in groupby(items, key=itemgetter("session", "id")):
        shown = [(row["message"], row["summary"]) for row in rows]
        direct = Counter(message for message, _ in shown if message is not None)
        leaves = Counter(leaf for _, key in shown if key is not None for leaf in below.get(key, [key]))
        if repeated := sum(number > 1 for number in direct.values()):
            yield f"The context of session {name} holds {repeated:,} messages more than once."
        if max(leaves.values(), default=0) > 1 or any(len(each & leaves.keys()) > 1 for each in overlapping):
            yield f"The context of session {name} holds summaries that cover the same messages."
        if both := sum(not leaves.keys().isdisjoint(leaves_of.get(key, ())) for key in direct):
            yield f"The context of session {name} holds {both:,} messages that a summary in it also covers."


def _word_index(connection: Connection, conversation: int | None) -> Iterator[str]:
    """Check that every message is in the search index."""
    for (key,) in _rows(connection, "SELECT key FROM conversations WHERE {only}", conversation, "key"):
        (missing,) = connection.execute(
            "SELECT count(*) FROM (SELECT key FROM messages WHERE conversation = ? "
            "EXCEPT SELECT rowid FROM message_words WHERE message_words MATCH ?)",
            (key, f"scope : {scope_of(key)}"),
        ).fetchone()
        if missing:
            yield f"{missing:,} messages of conversation c{key} are not in the search index, so lcm_grep misses them."


def _database_file(connection: Connection, conversation: int | None) -> Iterator[str]:
    """Run SQLite's own check of the whole file."""
    for (line,) in connection.execute("PRAGMA integrity_check(5)"):
        if line != "ok":
            yield f"The database file is damaged: {line}."


FILE = "database file"
CHECKS: dict[str, tuple[Check, str]] = {
    "conversation exists": (_conversation_exists, _RESTORE),
    "context positions": (_context_positions, _STORED_AGAIN),
    "references": (_references, _RESTORE),
    "sources": (_sources, _RESTORE),
    "orphan summaries": (_orphans, _HARMLESS),
    "token counts": (_token_counts, _HARMLESS),
    "message sequence": (_message_sequence, _RESTORE),
    "duplicate references": (_duplicates, _STORED_AGAIN),
    "word index": (_word_index, _RESTORE),
    FILE: (_database_file, _RESTORE),
}
