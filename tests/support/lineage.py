"""Checks the sessions of a database: invariants after any number of splits and crashes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

_BY_AN_ENGINE = ("compression", "hygiene", "command")


@dataclass(frozen=True, slots=True)
class Lineage:
    """A conversation's sessions, oldest first."""

    sessions: list[str]
    reasons: list[str]
    """Of all but the first."""

    @property
    def live(self) -> str:
        return self.sessions[-1]

    @property
    def splits(self) -> int:
        return len(self.reasons)


def sound_lineages(database: Path) -> dict[str, Lineage]:
    """By conversation. Fails where anything is half done: a child without its context, say, or two live leaves."""
    with closing(sqlite3.connect(database)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        _every_engine_split_is_whole(db)
        conversations = db.execute("SELECT id, live_session_id FROM conversations ORDER BY seq").fetchall()
        return {conversation: _chain(db, conversation, live) for conversation, live in conversations}


def _chain(db: sqlite3.Connection, conversation: str, live: str) -> Lineage:
    """One root, each of the others the only child of the one before, and the last one is live."""
    rows = db.execute(
        "SELECT id, parent_id, reason FROM sessions WHERE conversation_id = ? ORDER BY seq", (conversation,)
    ).fetchall()
    sessions = [row[0] for row in rows]
    assert [row[1] for row in rows] == [None, *sessions[:-1]], f"{conversation} is not one line: {rows}"
    assert sessions[-1] == live, f"{conversation} does not stand at its last session: {live}"
    return Lineage(sessions, [row[2] for row in rows[1:]])


def _every_engine_split_is_whole(db: sqlite3.Connection) -> None:
    """One record for each, and a context without gaps that holds as much as the record says."""
    marks = ", ".join("?" * len(_BY_AN_ENGINE))
    children = db.execute(f"SELECT id FROM sessions WHERE reason IN ({marks})", _BY_AN_ENGINE).fetchall()
    recorded = db.execute("SELECT session_id, messages_after FROM compactions").fetchall()
    unmatched = {child for (child,) in children} ^ {child for child, _ in recorded}
    assert not unmatched, f"a session without its compaction row, or the other way round: {unmatched}"
    for child, messages_after in recorded:
        places = db.execute(
            "SELECT position FROM session_context WHERE session_id = ? ORDER BY position", (child,)
        ).fetchall()
        found = [place for (place,) in places]
        assert found == list(range(-messages_after, 0)), f"the context of {child} is not whole: {found}"
        (written,) = db.execute(
            "SELECT count(*) FROM messages WHERE session_id = ? AND kind = 'summary'", (child,)
        ).fetchone()
        assert written, f"{child} has no summary"
