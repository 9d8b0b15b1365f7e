"""Compares `state.db` of Hermes with `hermes-lcm.db` of the engine."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from agent.messages import as_chat
from gateway.store.sqlite.store import SqliteStore
from plugins.context_engine.lcm.messages import message_from_row
from tests.support.lcm_chats import plain_chat

Messages = list[tuple[str, dict[str, Any]]]
"""Id and words of each message, in order."""


def conversation_of(home: Path, words: str) -> str:
    """The one in which these words were said."""
    with closing(sqlite3.connect(home / "state.db")) as db:
        (found,) = db.execute(
            "SELECT DISTINCT conversation_id FROM messages JOIN sessions ON sessions.id = session_id "
            "WHERE kind = 'said' AND role = 'user' AND instr(content, ?)",
            (words,),
        ).fetchone()
    return str(found)


def compactions(home: Path, conversation: str) -> int:
    with closing(sqlite3.connect(home / "state.db")) as db:
        (count,) = db.execute(
            "SELECT count(*) FROM compactions JOIN sessions ON sessions.id = session_id "
            "WHERE conversation_id = ? AND compactions.engine = 'lcm'",
            (conversation,),
        ).fetchone()
    return int(count)


def keys_of(home: Path, conversation: str) -> tuple[int, list[int]]:
    """The engine's key of it, and of all its summaries."""
    with closing(sqlite3.connect(home / "hermes-lcm.db")) as db:
        (key,) = db.execute("SELECT key FROM conversations WHERE id = ?", (conversation,)).fetchone()
        summaries = db.execute("SELECT key FROM summaries WHERE conversation = ?", (key,)).fetchall()
    return key, [summary for (summary,) in summaries]


async def said(home: Path, conversation: str) -> Messages:
    """All that was ever said in it, in every branch."""
    store = await SqliteStore.open(home / "state.db", read_only=True)
    try:
        sessions = await store.sessions.sessions(conversation)
        histories = [await store.sessions.history(session.id) for session in sessions]
    finally:
        await store.close()
    # A child session begins with what was said before it: that counts where it was said.
    known = {each.id: as_chat(each) for history in histories for each in history if each.kind == "said"}
    return [(id, plain_chat(chat)) for id, chat in known.items()]


def kept(home: Path, conversation: str) -> Messages:
    """Return the messages that the engine has stored."""
    with closing(sqlite3.connect(home / "hermes-lcm.db")) as db:
        db.row_factory = sqlite3.Row
        rows = db.execute(
            "SELECT messages.* FROM messages JOIN conversations ON conversations.key = conversation "
            "WHERE conversations.id = ? ORDER BY seq",
            (conversation,),
        ).fetchall()
    return [(row["identity"], plain_chat(message_from_row(row).chat)) for row in rows]


async def agree(home: Path, conversation: str, *, at_the_end: bool = False) -> bool:
    """Every message once, by its id, byte for byte, in order.

    The newest turn may not be seen yet while Hermes runs: an engine that is at work is not disturbed.
    """
    ours, theirs = await said(home, conversation), kept(home, conversation)
    assert theirs == ours[: len(theirs)]
    unseen = [chat["role"] for _, chat in ours[len(theirs) :]]
    assert unseen.count("user") <= 1 and not (at_the_end and unseen), unseen
    return True


def conversations(home: Path) -> list[str]:
    with closing(sqlite3.connect(home / "state.db")) as db:
        return [str(id) for (id,) in db.execute("SELECT id FROM conversations ORDER BY seq")]
