"""Parses the host's message list into items, and stores new messages.

The list is authoritative: after a restart, a branch or an undo it is parsed like any other. The host's `message_id`
identifies a message; without one, its content and the number of equal messages before it do. Texts that the engine
wrote itself begin with its mark and are recognised by a stored fingerprint, so no other text can pass for one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from sqlite3 import Connection
from typing import Literal

from agent.compression.summary_message import BRIDGE, is_by_an_engine, is_system
from agent.compression.summary_message import MARK as OTHERS_MARK
from agent.messages import STUB_RESULT, ChatDict, text_of
from agent.tokens import estimate_message_tokens

from .graph import message_keys_under
from .messages import HOST_KEYS, EchoDetector, NewMessage, add_messages, conversation_key, keys_by_identity

MARK = "[LCM "
RECORD = f"{MARK}RECORD]"
EngineTextKind = Literal["record", "copy", "hint"]


@dataclass(frozen=True, slots=True)
class EngineText:
    """A text that the engine wrote into a context."""

    kind: EngineTextKind
    summaries: tuple[int, ...] = ()
    """Summaries that a record shows, in order."""
    message: int | None = None
    """Key of the message that a copy replaces."""


def find_engine_text(connection: Connection, conversation: int, message: ChatDict) -> EngineText | None:
    text = text_of(message)
    if is_system(message) or not text.startswith(MARK):
        return None
    row = connection.execute(
        "SELECT key, kind, message FROM written WHERE conversation = ? AND fingerprint = ?",
        (conversation, _fingerprint(text)),
    ).fetchone()
    if row is None or (row["kind"] != "copy" and message.get("role") != "user"):
        return None
    shown = connection.execute(
        "SELECT summary FROM written_summaries WHERE written = ? ORDER BY position", (row["key"],)
    )
    return EngineText(row["kind"], tuple(each["summary"] for each in shown), row["message"])


def save_engine_text(connection: Connection, conversation: int, text: str, what: EngineText) -> None:
    """Store a fingerprint by which the text is recognised."""
    made = connection.execute(
        "INSERT INTO written (conversation, fingerprint, kind, message) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (conversation, _fingerprint(text), what.kind, what.message),
    )
    if made.rowcount:
        connection.executemany(
            "INSERT INTO written_summaries (written, position, summary) VALUES (?, ?, ?)",
            ((made.lastrowid, position, summary) for position, summary in enumerate(what.summaries)),
        )


def _fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


_BY_CONTENT = "="


def message_identities(messages: Iterable[ChatDict], said_before: Callable[[str], int]) -> list[str]:
    """Return one identity per message. `said_before` counts equal messages below the summaries."""
    seen: dict[str, int] = {}
    identities: list[str] = []
    for message in messages:
        identity = str(message.get("message_id") or "")
        if not identity:
            said = {key: value for key, value in message.items() if key not in HOST_KEYS}
            content = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:24]
            seen[content] = 1 + (seen[content] if content in seen else said_before(content))
            identity = f"{_BY_CONTENT}{content}.{seen[content]}"
        identities.append(identity)
    return identities


def summarised_counter(
    connection: Connection, conversation: int, summaries: Sequence[int], copied: Iterable[int]
) -> Callable[[str], int]:
    """Return a function that counts equal messages below summaries and copies. It queries only for texts seen
    before."""
    covered, walked = set(copied), False

    def said_before(content: str) -> int:
        rows = connection.execute(
            "SELECT key FROM messages WHERE conversation = ? AND identity BETWEEN ? AND ?",
            (conversation, f"{_BY_CONTENT}{content}.", f"{_BY_CONTENT}{content}.:"),
        ).fetchall()
        nonlocal walked
        if rows and not walked:
            walked = True
            covered.update(key for summary in summaries for key in message_keys_under(connection, summary))
        return sum(row["key"] in covered for row in rows)

    return said_before


_MAX_TIMESTAMP = 253_402_300_799
"""The end of the year 9999. Later times cannot be shown as a date."""

_MAX_RECORD_INDEX = 4
"""A record follows the system prompt. Later in the list a user may quote one."""

Kind = Literal["system", "record", "foreign record", "own", "hint", "said"]
"""`own` are bridges and stub results, which are recreated where needed. A `foreign record` is a summary of another
engine, or of this one before its database was lost: it is stored like a message.
"""
STORED_KINDS: tuple[Kind, ...] = ("said", "foreign record")


@dataclass(frozen=True, slots=True)
class ContextItem:
    kind: Kind
    chat: ChatDict
    tokens: int
    message: int = 0
    """Key of the stored message, or 0."""
    summaries: tuple[int, ...] = ()
    """Summaries that a record shows, in order."""


@dataclass(frozen=True, slots=True)
class ParsedContext:
    conversation: int
    items: list[ContextItem] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return sum(item.tokens for item in self.items)

    @property
    def summaries(self) -> list[int]:
        return [summary for item in self.items for summary in item.summaries]

    @property
    def references(self) -> list[tuple[int | None, int | None]]:
        """Pairs of (message, None) or (None, summary), in the order of the context."""
        references: list[tuple[int | None, int | None]] = []
        for item in self.items:
            references += [(None, summary) for summary in item.summaries]
            references += [(item.message, None)] if item.message else []
        # A message that the host repeats counts once.
        return list(dict.fromkeys(references))


def parse_context(
    connection: Connection, conversation_id: str, messages: Sequence[ChatDict], *, person: str, now: float
) -> ParsedContext:
    """Parse the list and store new messages. Needs a write transaction."""
    conversation = conversation_key(connection, conversation_id, person=person, now=now)
    own = [find_engine_text(connection, conversation, message) for message in messages]
    summaries = [summary for text in own if text for summary in text.summaries]
    kinds = [_kind(index, messages, own) for index in range(len(messages))]
    copied = {text.message for text in own if text and text.message}
    echoes = list(map(EchoDetector().is_echo, messages))
    said = [
        (message, echo)
        for message, echo, kind, text in zip(messages, echoes, kinds, own, strict=True)
        if kind in STORED_KINDS and not text
    ]
    said_before = summarised_counter(connection, conversation, summaries, copied)
    keys = iter(_store_new(connection, conversation, said, said_before, now))
    items: list[ContextItem] = []
    for message, kind, text in zip(messages, kinds, own, strict=True):
        tokens = estimate_message_tokens(message)
        if text and kind == "said":
            items.append(ContextItem("said", message, tokens, text.message or 0))
        elif kind in STORED_KINDS:
            items.append(ContextItem(kind, message, tokens, next(keys)))
        else:
            items.append(ContextItem(kind, message, tokens, summaries=text.summaries if text else ()))
    return ParsedContext(conversation, items)


def save_context(connection: Connection, reading: ParsedContext, session_id: str, now: float) -> None:
    """Store which messages and summaries the session's context holds. Usually only new rows are added."""
    connection.execute(
        "INSERT INTO sessions (conversation, id, seen_at) VALUES (?, ?, ?) "
        "ON CONFLICT (conversation, id) DO UPDATE SET seen_at = excluded.seen_at",
        (reading.conversation, session_id, now),
    )
    (session,) = connection.execute(
        "SELECT key FROM sessions WHERE conversation = ? AND id = ?", (reading.conversation, session_id)
    ).fetchone()
    rows = connection.execute(
        "SELECT position, message, summary FROM context_items WHERE session = ? ORDER BY position", (session,)
    )
    known = list(map(tuple, rows))
    wanted = [(position, *reference) for position, reference in enumerate(reading.references)]
    if wanted[: len(known)] != known:
        connection.execute("DELETE FROM context_items WHERE session = ?", (session,))
        known = []
    connection.executemany(
        "INSERT INTO context_items (session, position, message, summary) VALUES (?, ?, ?, ?)",
        ((session, *each) for each in wanted[len(known) :]),
    )


def _kind(index: int, messages: Sequence[ChatDict], own: Sequence[EngineText | None]) -> Kind:
    if is_system(messages[index]):
        return "system"
    if text := own[index]:
        return "said" if text.kind == "copy" else text.kind
    if messages[index].get("role") == "tool" and messages[index].get("content") == STUB_RESULT:
        return "own"
    before = own[index - 1] if index else None
    if before and before.kind == "record" and messages[index].get("content") in BRIDGE.values():
        return "own"
    return "foreign record" if _is_foreign_record(index, messages) else "said"


def _is_foreign_record(index: int, messages: Sequence[ChatDict]) -> bool:
    """A message without a later user message is a request, even if it looks like a summary."""
    message = messages[index]
    if index >= _MAX_RECORD_INDEX or not is_by_an_engine(message) or not has_record_mark(message):
        return False
    return any(each.get("role") == "user" for each in messages[index + 1 :])


def has_record_mark(message: ChatDict) -> bool:
    """Whether the message begins like a summary of this or another engine."""
    return text_of(message).startswith((RECORD, OTHERS_MARK))


def _store_new(
    connection: Connection,
    conversation: int,
    said: Sequence[tuple[ChatDict, bool]],
    said_before: Callable[[str], int],
    now: float,
) -> list[int]:
    """Store the messages that are new, with their echo flag, and return the keys of all in order."""
    names = message_identities((chat for chat, _ in said), said_before)
    keys = keys_by_identity(connection, conversation, names)
    new = {name: each for name, each in zip(names, said, strict=True) if name not in keys}
    incoming = (NewMessage(name, chat, _said_at(chat, now), echo) for name, (chat, echo) in new.items())
    keys.update(zip(new, add_messages(connection, conversation, incoming), strict=True))
    return [keys[name] for name in names]


def _said_at(chat: ChatDict, now: float) -> float:
    said_at = chat.get("created_at")
    if not isinstance(said_at, int | float) or not 0 <= said_at <= _MAX_TIMESTAMP:
        said_at = now
    return float(said_at)
