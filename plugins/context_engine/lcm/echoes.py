"""Echoes: calls of the engine's own tools and their results. They repeat what was said, so they are not searched.

Some models number their calls from zero in every turn. So a result belongs to the nearest message before it that calls
by its id, and an id means nothing beyond that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from agent.chat_text import call_of, text_of
from agent.messages import ChatDict

from .messages import BLOCK, messages_by_key, scope_of, stored, words_of

_OUR_TOOLS = "lcm_"


class Echoes:
    """Goes through the messages of a conversation, once for each in order."""

    def __init__(self) -> None:
        self._ours: dict[str, bool] = {}
        """By call id: whether the newest call by it is of one of our tools."""

    def is_echo(self, chat: ChatDict) -> bool:
        """A result, or calls without a word beside them."""
        if chat.get("role") == "tool":
            return self._ours.get(str(chat.get("tool_call_id")), False)
        here: dict[str, bool] = {}
        for call in chat.get("tool_calls") or ():
            name, is_ours = str(call.get("id")), call_of(call)[0].startswith(_OUR_TOOLS)
            here[name] = is_ours and here.get(name, True)
        self._ours |= here
        return bool(here) and all(here.values()) and not text_of(chat)


def correct(connection: sqlite3.Connection) -> None:
    """Earlier versions matched by id over the whole list: results of other tools were hidden for good."""
    rows = connection.execute(
        "SELECT * FROM messages WHERE conversation IN (SELECT conversation FROM messages WHERE echo) "
        "AND rest IS NOT NULL ORDER BY conversation, seq"
    )
    for key in list(_mistaken(rows)):
        _reveal(connection, key)


def _mistaken(rows: Iterator[sqlite3.Row]) -> Iterator[int]:
    for _, said in groupby(rows, key=itemgetter("conversation")):
        echoes = Echoes()
        for row in said:
            if not echoes.is_echo(stored(row).chat) and row["echo"]:
                yield row["key"]


def _reveal(connection: sqlite3.Connection, key: int) -> None:
    """The index gets the words of the message. Its meaning is worked out again at the next chance."""
    chat = messages_by_key(connection, [key])[key].chat
    conversation, seq = connection.execute(
        "SELECT conversation, seq FROM messages WHERE key = ?", (key,)
    ).fetchone()
    connection.execute("UPDATE messages SET echo = 0 WHERE key = ?", (key,))
    scope = scope_of(conversation)
    connection.execute(
        "INSERT INTO message_words (message_words, rowid, scope, body) VALUES ('delete', ?, ?, '')",
        (key, scope),
    )
    connection.execute(
        "INSERT INTO message_words (rowid, scope, body) VALUES (?, ?, ?)", (key, scope, words_of(chat))
    )
    connection.execute(
        "DELETE FROM meanings WHERE conversation = ? AND block = ?", (conversation, (seq - 1) // BLOCK)
    )
