"""What Hermes keeps in `state.db` beside what the engine keeps in `lcm.db`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from agent.messages import as_chat
from gateway.store import SqliteStore
from plugins.context_engine.lcm.messages import stored
from tests.lcm.chats import plain_chat

Books = list[tuple[str, dict[str, Any]]]
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


async def said(home: Path, conversation: str) -> Books:
    """All that was ever said in it, in every branch."""
    with closing(sqlite3.connect(home / "state.db")) as db:
        rows = db.execute(
            "SELECT messages.id FROM messages JOIN sessions ON sessions.id = session_id "
            "WHERE conversation_id = ? AND kind = 'said' ORDER BY messages.seq",
            (conversation,),
        ).fetchall()
    store = await SqliteStore.open(home / "state.db", read_only=True)
    try:
        sessions = await store.sessions(conversation)
        histories = [await store.history(session.id) for session in sessions]
    finally:
        await store.close()
    known = {message.id: message for history in histories for message in history}
    return [(id, plain_chat(as_chat(known[id]))) for (id,) in rows]


def kept(home: Path, conversation: str) -> Books:
    """What the engine has stored of it."""
    with closing(sqlite3.connect(home / "lcm.db")) as db:
        db.row_factory = sqlite3.Row
        rows = db.execute(
            "SELECT messages.* FROM messages JOIN conversations ON conversations.key = conversation "
            "WHERE conversations.id = ? ORDER BY seq",
            (conversation,),
        ).fetchall()
    return [(row["identity"], plain_chat(stored(row).chat)) for row in rows]


async def agree(home: Path, conversation: str) -> bool:
    """Every message once, by its id, byte for byte, in order. The newest answer is seen with the next message."""
    ours, theirs = await said(home, conversation), kept(home, conversation)
    newest_is_an_answer = ours[-1][1]["role"] == "assistant"
    assert theirs == ours or (newest_is_an_answer and theirs == ours[:-1]), (len(theirs), len(ours))
    return True
