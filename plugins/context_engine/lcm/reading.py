"""From the host's message list to items that the engine understands; what is new in it is stored on the way.

The list is the truth: an engine that was made just now, after a restart, in a branch or after an undo, reads it like
any other.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agent.chat_text import text_of
from agent.compression.summary_message import BRIDGE, is_system
from agent.messages import ChatDict
from agent.tokens import estimate_message_tokens
from agent.tool_pairs import STUB_RESULT

from .identity import counter_beneath, identities
from .messages import Incoming, add_messages, conversation_key, keys_by_identity
from .written import OwnText, recognised

_LAST_TIME = 253_402_300_799
"""The end of the year 9999: what lies beyond cannot be shown as a date."""

Kind = Literal["system", "record", "bridge", "hint", "said"]


@dataclass(frozen=True, slots=True)
class Item:
    """One message of the list."""

    kind: Kind
    chat: ChatDict
    tokens: int
    message: int = 0
    """Of what was said: its key in the store."""
    is_copy: bool = False
    """A digest stands here for the whole message."""
    summaries: tuple[int, ...] = ()
    """Of a record: those it shows, in order."""


@dataclass(frozen=True, slots=True)
class Reading:
    conversation: int
    items: list[Item] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return sum(item.tokens for item in self.items)

    @property
    def summaries(self) -> list[int]:
        return [summary for item in self.items for summary in item.summaries]

    @property
    def references(self) -> list[tuple[int | None, int | None]]:
        """What the context consists of: (message, None) or (None, summary), in order."""
        references: list[tuple[int | None, int | None]] = []
        for item in self.items:
            references += [(None, summary) for summary in item.summaries]
            references += [(item.message, None)] if item.message else []
        # A host that repeats a message in its list has still said it once.
        return list(dict.fromkeys(references))


def read(
    connection: sqlite3.Connection,
    conversation_id: str,
    messages: Sequence[ChatDict],
    *,
    person: str,
    now: float,
) -> Reading:
    """Stores what is new. The connection must be allowed to write."""
    conversation = conversation_key(connection, conversation_id, person=person, now=now)
    own = [_own(connection, conversation, message) for message in messages]
    summaries = [summary for text in own if text for summary in text.summaries]
    kinds = [_kind(index, messages, own) for index in range(len(messages))]
    said = [
        message
        for message, kind, text in zip(messages, kinds, own, strict=True)
        if kind == "said" and not text
    ]
    keys = iter(_stored(connection, conversation, said, summaries, now))
    items: list[Item] = []
    for message, kind, text in zip(messages, kinds, own, strict=True):
        tokens = estimate_message_tokens(message)
        if text and kind == "said":
            items.append(Item("said", message, tokens, text.message, is_copy=True))
        elif kind == "said":
            items.append(Item("said", message, tokens, next(keys)))
        else:
            items.append(Item(kind, message, tokens, summaries=text.summaries if text else ()))
    return Reading(conversation, items)


def save_context(connection: sqlite3.Connection, reading: Reading, session_id: str, now: float) -> None:
    """What the session's context is now. It usually only grew, and then only that is written."""
    connection.execute(
        "INSERT INTO sessions (conversation, id, seen_at) VALUES (?, ?, ?) "
        "ON CONFLICT (conversation, id) DO UPDATE SET seen_at = excluded.seen_at",
        (reading.conversation, session_id, now),
    )
    (session,) = connection.execute(
        "SELECT key FROM sessions WHERE conversation = ? AND id = ?", (reading.conversation, session_id)
    ).fetchone()
    rows = connection.execute(
        "SELECT message, summary FROM context_items WHERE session = ? ORDER BY position", (session,)
    )
    known, wanted = list(map(tuple, rows)), reading.references
    (last,) = connection.execute(
        "SELECT max(position) FROM context_items WHERE session = ?", (session,)
    ).fetchone()
    if wanted[: len(known)] != known or last != (len(known) - 1 if known else None):
        connection.execute("DELETE FROM context_items WHERE session = ?", (session,))
        known = []
    connection.executemany(
        "INSERT INTO context_items (session, position, message, summary) VALUES (?, ?, ?, ?)",
        ((session, position, *wanted[position]) for position in range(len(known), len(wanted))),
    )


def _own(connection: sqlite3.Connection, conversation: int, message: ChatDict) -> OwnText | None:
    if is_system(message):
        return None
    text = recognised(connection, conversation, text_of(message))
    return text if text and (text.kind == "copy" or message.get("role") == "user") else None


def _kind(index: int, messages: Sequence[ChatDict], own: Sequence[OwnText | None]) -> Kind:
    if is_system(messages[index]):
        return "system"
    if text := own[index]:
        return "said" if text.kind == "copy" else text.kind
    if messages[index].get("role") == "tool" and messages[index].get("content") == STUB_RESULT:
        return "bridge"
    before = own[index - 1] if index else None
    if before and before.kind == "record" and messages[index].get("content") in BRIDGE.values():
        return "bridge"
    return "said"


def _stored(
    connection: sqlite3.Connection,
    conversation: int,
    said: Sequence[ChatDict],
    summaries: Sequence[int],
    now: float,
) -> list[int]:
    """The key of each, in order."""
    names = identities(said, counter_beneath(connection, conversation, summaries))
    keys = keys_by_identity(connection, conversation, names)
    new = {name: chat for name, chat in zip(names, said, strict=True) if name not in keys}
    added = add_messages(connection, conversation, _incoming(new.items(), now))
    keys.update(zip(new, added, strict=True))
    return [keys[name] for name in names]


def _incoming(new: Iterable[tuple[str, ChatDict]], now: float) -> Iterable[Incoming]:
    for identity, chat in new:
        said_at = chat.get("created_at")
        if not isinstance(said_at, int | float) or not 0 <= said_at <= _LAST_TIME:
            said_at = now
        yield Incoming(identity, chat, float(said_at))
