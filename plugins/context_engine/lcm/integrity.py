# ruff: noqa: S608 - only the name of a column is put into the SQL
"""Integrity checks of the database: eight of its contents, two of the file. They only read.

Each check is a function that yields a sentence for each problem.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from agent.tokens import estimate_text_tokens

from .messages import scope_of
from .stats import LEFTOVER_SUMMARIES

_SHOWN = 5
"""Findings of one check that are listed."""
_SLACK_TOKENS = 16
_SLACK_SHARE = 0.10

Finding = str
Check = Callable[[sqlite3.Connection, int | None], Iterator[Finding]]

_RESTORE = "Restore a backup with `hermes restore`, or go on: everything else can still be read."
_STORED_AGAIN = "Send a message: that stores the context again."
_HARMLESS = "Nothing is lost, and nothing needs to be done."


@dataclass(frozen=True, slots=True)
class Problem:
    check: str
    """Name of the check."""
    what: str
    advice: str


def check(
    connection: sqlite3.Connection, conversation: int | None = None, *, file: bool = True
) -> list[Problem]:
    """Check one conversation, or all. Without `file`, skip the check that is slow in a large database."""
    problems: list[Problem] = []
    checks = CHECKS if file else {name: each for name, each in CHECKS.items() if name != FILE}
    for name, (run, advice) in checks.items():
        try:
            problems += _limit_findings(name, run(connection, conversation), advice)
        except sqlite3.DatabaseError as error:
            what = f"The database could not be read for this check: {error}."
            problems.append(Problem(name, what, _RESTORE))
    return problems


def _limit_findings(name: str, findings: Iterable[Finding], advice: str) -> Iterator[Problem]:
    others = 0
    for number, finding in enumerate(findings):
        if number < _SHOWN:
            yield Problem(name, finding, advice)
        else:
            others += 1
    if others:
        yield Problem(name, f"And {others:,} more of this kind.", advice)


def conversation_exists(connection: sqlite3.Connection, conversation: int | None) -> Iterator[Finding]:
    """Check that every row belongs to an existing conversation."""
    for table in ("messages", "summaries", "sessions", "written", "meanings"):
        rows = connection.execute(
            f"SELECT conversation, count(*) AS number FROM {table} WHERE {_condition('conversation', conversation)} "
            "AND conversation NOT IN (SELECT key FROM conversations) GROUP BY conversation",
            _parameters(conversation),
        )
        for row in rows:
            missing = f"conversation c{row['conversation']}, which does not exist"
            yield f"{row['number']:,} rows of `{table}` belong to {missing}."


def context_positions(connection: sqlite3.Connection, conversation: int | None) -> Iterator[Finding]:
    """Check that positions are contiguous from 0."""
    rows = connection.execute(
        "SELECT sessions.id, count(*) AS number, min(position) AS first, max(position) AS last "
        "FROM context_items JOIN sessions ON sessions.key = session "
        f"WHERE {_condition('sessions.conversation', conversation)} "
        "GROUP BY session HAVING first <> 0 OR last <> number - 1",
        _parameters(conversation),
    )
    for row in rows:
        yield (
            f"The context of session {row['id']} has {row['number']:,} entries at the positions {row['first']} to "
            f"{row['last']}."
        )


def references(connection: sqlite3.Connection, conversation: int | None) -> Iterator[Finding]:
    """Check that every reference points to a row of the same conversation."""
    for what, source, column, target in _REFERENCES:
        rows = connection.execute(
            f"SELECT {column} AS reference, there.conversation AS found FROM {source} "
            f"LEFT JOIN {target} AS there ON there.key = {column} "
            f"WHERE {_condition('owner.conversation', conversation)} AND {column} IS NOT NULL "
            "AND there.conversation IS NOT owner.conversation",
            _parameters(conversation),
        )
        for row in rows:
            state = "does not exist" if row["found"] is None else f"belongs to conversation c{row['found']}"
            yield f"{what} refers to {_KINDS[target]} {row['reference']}, which {state}."
    for table, column, owner in _OWNERS:
        if conversation is None:
            rows = connection.execute(
                f"SELECT {column} AS owner FROM {table} WHERE {column} NOT IN (SELECT key FROM {owner})"
            )
            for row in rows:
                yield f"A row of `{table}` belongs to {_KINDS[owner]} {row['owner']}, which does not exist."


_KINDS = {"messages": "message", "summaries": "summary", "sessions": "session", "written": "text"}
_CONTEXTS = "context_items JOIN sessions AS owner ON owner.key = session"
_LEAVES = "summary_messages JOIN summaries AS owner ON owner.key = summary"
_PARENTS = "summary_children JOIN summaries AS owner ON owner.key = parent"
_RECORDS = "written_summaries JOIN written AS owner ON owner.key = written_summaries.written"
_REFERENCES = (
    ("A context", _CONTEXTS, "context_items.message", "messages"),
    ("A context", _CONTEXTS, "context_items.summary", "summaries"),
    ("A summary", _LEAVES, "summary_messages.message", "messages"),
    ("A summary", _PARENTS, "summary_children.child", "summaries"),
    ("A record", _RECORDS, "written_summaries.summary", "summaries"),
    ("A digest", "written AS owner", "owner.message", "messages"),
)
_OWNERS = (
    ("context_items", "session", "sessions"),
    ("compactions", "session", "sessions"),
    ("summary_messages", "summary", "summaries"),
    ("summary_children", "parent", "summaries"),
    ("written_summaries", "written", "written"),
)


def sources(connection: sqlite3.Connection, conversation: int | None) -> Iterator[Finding]:
    """Check that leaves cover messages, and that other summaries cover summaries one level below."""
    rows = connection.execute(
        "SELECT key, depth, (SELECT count(*) FROM summary_messages WHERE summary = key) AS messages, "
        "(SELECT count(*) FROM summary_children WHERE parent = key) AS children, "
        "(SELECT max(below.depth) FROM summary_children JOIN summaries AS below ON below.key = child "
        "WHERE parent = summaries.key) AS highest "
        f"FROM summaries WHERE {_condition('conversation', conversation)}",
        _parameters(conversation),
    )
    for row in rows:
        name = f"Summary s{row['key']} (depth {row['depth']})"
        if row["depth"] == 0 and row["children"]:
            yield f"{name} covers {row['children']} summaries, but should cover messages only."
        elif row["depth"] == 0 and not row["messages"]:
            yield f"{name} covers no message."
        elif row["depth"] and row["messages"]:
            yield f"{name} covers {row['messages']} messages, but should cover summaries only."
        elif row["depth"] and not row["children"]:
            yield f"{name} covers no summary."
        elif row["depth"] and row["highest"] is not None and row["depth"] != row["highest"] + 1:
            yield f"{name} covers a summary of depth {row['highest']}."


def orphans(connection: sqlite3.Connection, conversation: int | None) -> Iterator[Finding]:
    """Check that each summary is in a context, in a record, below another summary, or recent."""
    rows = connection.execute(
        f"SELECT key FROM conversations WHERE {_condition('key', conversation)}", _parameters(conversation)
    ).fetchall()
    for (key,) in rows:
        for (summary,) in connection.execute(LEFTOVER_SUMMARIES, {"conversation": key}):
            yield f"Summary s{summary} is in no context and below no other summary."


def token_counts(connection: sqlite3.Connection, conversation: int | None) -> Iterator[Finding]:
    """Check the counts that a summary keeps about itself and its sources."""
    rows = connection.execute(
        "SELECT key, content, topics, tokens FROM summaries "
        f"WHERE {_condition('conversation', conversation)} ORDER BY key",
        _parameters(conversation),
    )
    for row in rows:
        least = estimate_text_tokens(row["content"])
        most = least + estimate_text_tokens(row["topics"])
        slack = _SLACK_TOKENS + most * _SLACK_SHARE
        if not least - slack <= row["tokens"] <= most + slack:
            yield f"Summary s{row['key']} counts {row['tokens']:,} tokens and has about {least:,}."
    for query in (_COUNTS_OF_LEAVES, _COUNTS_OF_OTHERS):
        counted = connection.execute(
            query.format(only=_condition("summaries.conversation", conversation)), _parameters(conversation)
        )
        for row in counted:
            wrong = [name for name in _COUNTED if row[name] != row[f"real_{name}"]]
            if wrong:
                told = ", ".join(f"{name} {row[name]} (its sources: {row[f'real_{name}']})" for name in wrong)
                yield f"Summary s{row['key']} has {told}."


_COUNTED = (
    *("source_tokens", "message_tokens", "message_count"),
    *("first_seq", "last_seq", "earliest", "latest"),
)
_COUNTS_OF_LEAVES = (
    "SELECT summaries.*, sum(m.tokens) AS real_source_tokens, sum(m.tokens) AS real_message_tokens, "
    "count(*) AS real_message_count, min(m.seq) AS real_first_seq, max(m.seq) AS real_last_seq, "
    "min(m.said_at) AS real_earliest, max(m.said_at) AS real_latest "
    "FROM summaries JOIN summary_messages ON summary = summaries.key JOIN messages AS m ON m.key = message "
    "WHERE summaries.depth = 0 AND {only} GROUP BY summaries.key"
)
_COUNTS_OF_OTHERS = (
    "SELECT summaries.*, sum(s.tokens) AS real_source_tokens, sum(s.message_tokens) AS real_message_tokens, "
    "sum(s.message_count) AS real_message_count, min(s.first_seq) AS real_first_seq, "
    "max(s.last_seq) AS real_last_seq, min(s.earliest) AS real_earliest, max(s.latest) AS real_latest "
    "FROM summaries JOIN summary_children ON parent = summaries.key JOIN summaries AS s ON s.key = child "
    "WHERE summaries.depth > 0 AND {only} GROUP BY summaries.key"
)


def message_sequence(connection: sqlite3.Connection, conversation: int | None) -> Iterator[Finding]:
    """Check that messages are numbered from 1 without gaps."""
    rows = connection.execute(
        "SELECT conversation, count(*) AS number, min(seq) AS first, max(seq) AS last FROM messages "
        f"WHERE {_condition('conversation', conversation)} GROUP BY conversation HAVING first <> 1 OR last <> number",
        _parameters(conversation),
    )
    for row in rows:
        yield (
            f"Conversation c{row['conversation']} has {row['number']:,} messages, numbered m{row['first']} to "
            f"m{row['last']}."
        )


def duplicates(connection: sqlite3.Connection, conversation: int | None) -> Iterator[Finding]:
    """Check that no summary and no context holds the same message twice."""
    graph = _Graph(connection, conversation)
    yield from graph.repeated_sources
    items: dict[tuple[int, str], list[tuple[int | None, int | None]]] = defaultdict(list)
    rows = connection.execute(
        "SELECT session, sessions.id, message, summary FROM context_items JOIN sessions ON sessions.key = session "
        f"WHERE {_condition('sessions.conversation', conversation)} ORDER BY session, position",
        _parameters(conversation),
    )
    for row in rows:
        items[row["session"], row["id"]].append((row["message"], row["summary"]))
    for (_, name), shown in items.items():
        yield from graph.repeated_in(name, shown)


class _Graph:
    """The summaries and their sources in memory. Contexts are compared by leaves, not by messages, because each session
    has a context.
    """

    def __init__(self, connection: sqlite3.Connection, conversation: int | None) -> None:
        only, given = _condition("conversation", conversation), _parameters(conversation)
        self._children: dict[int, list[int]] = defaultdict(list)
        self._leaves_of: dict[int, list[int]] = defaultdict(list)
        self._leaves: dict[int, tuple[int, ...]] = {}
        messages: dict[int, list[int]] = defaultdict(list)
        for row in connection.execute(
            f"SELECT parent, child FROM summary_children JOIN summaries ON key = parent WHERE {only}", given
        ):
            self._children[row["parent"]].append(row["child"])
        for row in connection.execute(
            f"SELECT summary, message FROM summary_messages JOIN summaries ON key = summary WHERE {only}",
            given,
        ):
            messages[row["summary"]].append(row["message"])
            self._leaves_of[row["message"]].append(row["summary"])
        self.repeated_sources = [
            f"Summary s{summary} covers the same {kind} more than once."
            for kind, sources_of in (("message", messages), ("summary", self._children))
            for summary, keys in sources_of.items()
            if len(set(keys)) < len(keys)
        ]
        self._shared = [set(leaves) for leaves in self._leaves_of.values() if len(set(leaves)) > 1]

    def repeated_in(self, session: str, shown: list[tuple[int | None, int | None]]) -> Iterator[Finding]:
        direct = Counter(message for message, _ in shown if message is not None)
        leaves = Counter(
            leaf for _, summary in shown if summary is not None for leaf in self.leaves_below(summary)
        )
        if repeated := [message for message, number in direct.items() if number > 1]:
            yield f"The context of session {session} holds {len(repeated):,} messages more than once."
        if any(number > 1 for number in leaves.values()) or any(
            len(sharing & leaves.keys()) > 1 for sharing in self._shared
        ):
            yield f"The context of session {session} holds summaries that cover the same messages."
        both = [key for key in direct if any(leaf in leaves for leaf in self._leaves_of.get(key, ()))]
        if both:
            yield f"The context of session {session} holds {len(both):,} messages that a summary in it also covers."

    def leaves_below(self, summary: int) -> tuple[int, ...]:
        if summary not in self._leaves:
            # A child has a smaller key than its parent; any other child is damage and could form a cycle.
            children = [child for child in self._children.get(summary, ()) if child < summary]
            self._leaves[summary] = (
                tuple(leaf for child in set(children) for leaf in self.leaves_below(child))
                if children
                else (summary,)
            )
        return self._leaves[summary]


def word_index(connection: sqlite3.Connection, conversation: int | None) -> Iterator[Finding]:
    """Check that every message is in the search index."""
    rows = connection.execute(
        f"SELECT key FROM conversations WHERE {_condition('key', conversation)}", _parameters(conversation)
    ).fetchall()
    for (key,) in rows:
        (missing,) = connection.execute(
            "SELECT count(*) FROM (SELECT key FROM messages WHERE conversation = ? "
            "EXCEPT SELECT rowid FROM message_words WHERE message_words MATCH ?)",
            (key, f"scope : {scope_of(key)}"),
        ).fetchone()
        if missing:
            yield f"{missing:,} messages of conversation c{key} are not in the search index, so lcm_grep misses them."


def database_file(connection: sqlite3.Connection, conversation: int | None) -> Iterator[Finding]:
    """Run SQLite's own check of the whole file."""
    for (line,) in connection.execute("PRAGMA integrity_check(5)"):
        if line != "ok":
            yield f"The database file is damaged: {line}."


FILE = "database file"
CHECKS: dict[str, tuple[Check, str]] = {
    "conversation exists": (conversation_exists, _RESTORE),
    "context positions": (context_positions, _STORED_AGAIN),
    "references": (references, _RESTORE),
    "sources": (sources, _RESTORE),
    "orphan summaries": (orphans, _HARMLESS),
    "token counts": (token_counts, _HARMLESS),
    "message sequence": (message_sequence, _RESTORE),
    "duplicate references": (duplicates, _STORED_AGAIN),
    "word index": (word_index, _RESTORE),
    FILE: (database_file, _RESTORE),
}


def _condition(column: str, conversation: int | None) -> str:
    """Return an SQL condition that uses the index where one conversation is checked."""
    return "TRUE" if conversation is None else f"{column} = :conversation"


def _parameters(conversation: int | None) -> dict[str, int | float]:
    return {} if conversation is None else {"conversation": conversation}
