"""Messages in the store: each once, verbatim, in the order in which the engine first saw them.

Echoes are calls of the engine's own tools and their results. They repeat other messages, so they are not searched.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from sqlite3 import Connection, Row

from agent.fts_text import indexable
from agent.messages import ChatDict, call_of, text_of
from agent.tokens import estimate_message_tokens

HOST_KEYS = ("message_id", "created_at", "kind", "state")

MAX_INDEXED = 200_000
"""Characters of one message that are indexed for search."""

EMBEDDING_BLOCK = 256
"""Messages whose embeddings are stored in one row of 32 kB."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    key: int
    seq: int
    role: str
    chat: ChatDict
    tokens: int
    said_at: float

    @property
    def id(self) -> str:
        return f"m{self.seq}"


@dataclass(frozen=True, slots=True)
class NewMessage:
    identity: str
    chat: ChatDict
    said_at: float
    is_echo: bool = False
    """Whether it is a call of one of the engine's tools, or its result."""


def conversation_key(connection: Connection, conversation_id: str, *, person: str, now: float) -> int:
    row = connection.execute(
        "SELECT key, person FROM conversations WHERE id = ?", (conversation_id,)
    ).fetchone()
    if row is None:
        made = connection.execute(
            "INSERT INTO conversations (id, person, created_at) VALUES (?, ?, ?)",
            (conversation_id, person, now),
        )
        return int(made.lastrowid or 0)
    if person and row["person"] != person:
        connection.execute("UPDATE conversations SET person = ? WHERE key = ?", (person, row["key"]))
    return int(row["key"])


def add_messages(connection: Connection, conversation: int, incoming: Iterable[NewMessage]) -> list[int]:
    """Store messages that are not stored yet, and return their keys in order."""
    following = last_seq(connection, conversation) + 1
    return [_add(connection, conversation, seq, each) for seq, each in enumerate(incoming, following)]


def last_seq(connection: Connection, conversation: int) -> int:
    """Return the highest number, which is the number of messages, because numbers have no gaps."""
    (last,) = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM messages WHERE conversation = ?", (conversation,)
    ).fetchone()
    return int(last)


def keys_by_identity(connection: Connection, conversation: int, identities: Iterable[str]) -> dict[str, int]:
    rows = connection.execute(
        "SELECT identity, key FROM messages WHERE conversation = ? AND identity IN (SELECT value FROM json_each(?))",
        (conversation, json.dumps(list(identities))),
    )
    return dict(map(tuple, rows))


def messages_by_key(connection: Connection, keys: Iterable[int]) -> dict[int, StoredMessage]:
    rows = connection.execute(
        "SELECT * FROM messages WHERE key IN (SELECT value FROM json_each(?))", (json.dumps(list(keys)),)
    )
    return {row["key"]: message_from_row(row) for row in rows}


def messages_between(
    connection: Connection, conversation: int, first_seq: int, last_seq: int
) -> list[StoredMessage]:
    rows = connection.execute(
        "SELECT * FROM messages WHERE conversation = ? AND seq BETWEEN ? AND ? ORDER BY seq",
        (conversation, first_seq, last_seq),
    )
    return list(map(message_from_row, rows))


def message_from_row(row: Row) -> StoredMessage:
    chat: ChatDict = {"role": row["role"], "content": row["content"]}
    if row["rest"]:
        chat |= json.loads(row["rest"])
    return StoredMessage(row["key"], row["seq"], row["role"], chat, row["tokens"], row["said_at"])


def searchable_text(chat: ChatDict) -> str:
    """Return the text, the sender's name and the tool calls of a message."""
    calls = (" ".join(call_of(call)) for call in chat.get("tool_calls") or ())
    return "\n".join(filter(None, (str(chat.get("name") or ""), text_of(chat), *calls)))


def _add(connection: Connection, conversation: int, seq: int, incoming: NewMessage) -> int:
    content, rest = _split_content(incoming.chat)
    chat = incoming.chat
    made = connection.execute(
        "INSERT INTO messages (conversation, seq, identity, role, content, rest, tokens, said_at, echo) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(conversation, seq, incoming.identity, chat["role"], content, rest),
            *(estimate_message_tokens(chat), incoming.said_at, incoming.is_echo),
        ),
    )
    key = int(made.lastrowid or 0)
    connection.execute(
        "INSERT INTO message_words (rowid, scope, body) VALUES (?, ?, ?)",
        (key, scope_of(conversation), "" if incoming.is_echo else index_text(chat)),
    )
    return key


def index_text(chat: ChatDict) -> str:
    return indexable(searchable_text(chat)[:MAX_INDEXED]).encode("utf-8", "replace").decode()


def scope_of(conversation: int) -> str:
    return f"c{conversation}"


def _split_content(chat: ChatDict) -> tuple[str | None, str | None]:
    """Split into text and the rest as JSON. Text that UTF-8 cannot encode goes with the rest."""
    rest = {key: value for key, value in chat.items() if key not in ("role", "content", *HOST_KEYS)}
    content = chat.get("content")
    # SQLite's own functions stop at a zero byte.
    if not isinstance(content, str) or "\0" in content or not is_encodable(content):
        if content is not None:
            rest["content"] = content
        content = None
    return content, _json(rest) if rest else None


def _json(value: object) -> str:
    """Encode as JSON; NaN and infinity become strings."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(json.loads(json.dumps(value), parse_constant=str))


def make_storable(text: str) -> str:
    """Replace what UTF-8 cannot encode, and zero bytes."""
    if text.isascii():
        return text.replace("\0", " ")
    return text.encode("utf-8", "replace").decode().replace("\0", " ")


def is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_TOOL_PREFIX = "lcm_"


class EchoDetector:
    """Detects echoes, given the messages of a conversation in order.

    Some models number their calls from zero in every turn, so a result belongs to the nearest call with its id.
    """

    def __init__(self) -> None:
        self._ours: dict[str, bool] = {}
        """Whether the newest call with this id is of the engine's tools."""

    def is_echo(self, chat: ChatDict) -> bool:
        """Whether the message is a result of the engine's tools, or only calls them."""
        if chat.get("role") == "tool":
            return self._ours.get(str(chat.get("tool_call_id")), False)
        here: dict[str, bool] = {}
        for call in chat.get("tool_calls") or ():
            name, is_ours = str(call.get("id")), call_of(call)[0].startswith(_TOOL_PREFIX)
            here[name] = is_ours and here.get(name, True)
        self._ours |= here
        return bool(here) and all(here.values()) and not text_of(chat)


def reindex_mistaken_echoes(connection: Connection) -> None:
    """Index results that earlier versions took for echoes because they matched call ids over the whole conversation."""
    rows = connection.execute(
        "SELECT * FROM messages WHERE conversation IN (SELECT conversation FROM messages WHERE echo) "
        "AND rest IS NOT NULL ORDER BY conversation, seq"
    )
    mistaken: list[Row] = []
    for _, said in groupby(rows, key=itemgetter("conversation")):
        echoes = EchoDetector()
        mistaken += [row for row in said if not echoes.is_echo(message_from_row(row).chat) and row["echo"]]
    for row in mistaken:
        _reindex(connection, row)


def _reindex(connection: Connection, row: Row) -> None:
    """Add the message to the word index, and drop the embeddings of its block."""
    key, conversation, scope = row["key"], row["conversation"], scope_of(row["conversation"])
    connection.execute("UPDATE messages SET echo = 0 WHERE key = ?", (key,))
    connection.execute(
        "INSERT INTO message_words (message_words, rowid, scope, body) VALUES ('delete', ?, ?, '')",
        (key, scope),
    )
    connection.execute(
        "INSERT INTO message_words (rowid, scope, body) VALUES (?, ?, ?)",
        (key, scope, index_text(message_from_row(row).chat)),
    )
    connection.execute(
        "DELETE FROM meanings WHERE conversation = ? AND block = ?",
        (conversation, (row["seq"] - 1) // EMBEDDING_BLOCK),
    )
