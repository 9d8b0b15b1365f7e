"""From what the model calls a thing to the thing: `m12`, `m12-m30`, `s4`, and `c3.m12` in another conversation.

A conversation that this person may not see is answered like one that does not exist.
"""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass

from ..messages import Stored, messages_between
from ..place import Place, conversations_in_reach
from ..summaries import Node, node
from .refusal import Refused

_ID = re.compile(r"(?:c(\d{1,18})\.)?([ms])(\d{1,18})(?:-(?:(?:c(\d{1,18})\.)?m)?(\d{1,18}))?")
_AROUND = "[]()<>`'\".,;: \n\t"
_FORMS = "Ids look like `m12` (a message), `m12-m30` (a range) or `s4` (a summary)."
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Messages:
    """One message or several in a row."""

    conversation: int
    prefix: str
    """`c3.` in another conversation, else empty."""
    first: int
    last: int

    @property
    def id(self) -> str:
        return f"{self.prefix}m{self.first}" + (f"-m{self.last}" if self.last > self.first else "")


@dataclass(frozen=True, slots=True)
class Summary:
    conversation: int
    prefix: str
    node: Node

    @property
    def id(self) -> str:
        return f"{self.prefix}{self.node.id}"


Target = Messages | Summary


def conversation_here(connection: sqlite3.Connection, place: Place) -> int:
    """Raises Refused where nothing of it is stored yet."""
    here = conversations_in_reach(connection, place, everywhere=False)
    if not here:
        raise Refused("Nothing of this conversation is stored yet: all of it is still before you.")
    return next(iter(here))


def find(connection: sqlite3.Connection, place: Place, written: str) -> Target:
    """Raises Refused with a sentence for what is not understood, not there, or not for this person."""
    text = written.strip(_AROUND).lower().replace("–", "-").replace("—", "-").replace(" ", "")
    match = _ID.fullmatch(text)
    if match is None or (match[2] == "s" and match[5]) or (match[4] and match[4] != match[1]):
        raise Refused(f"`{written[:_SHOWN]}` is no id. {_FORMS} `lcm_grep` finds messages by their words.")
    here = conversation_here(connection, place)
    conversation = int(match[1]) if match[1] else here
    if conversation not in conversations_in_reach(connection, place, everywhere=conversation != here):
        raise Refused(
            f"There is no conversation `c{match[1]}` here. Leave the `c{match[1]}.` out for this one."
        )
    prefix = f"c{conversation}." if conversation != here else ""
    number = int(match[3])
    if match[2] == "s":
        return _summary(connection, place, conversation, prefix, number)
    return _messages(connection, conversation, prefix, number, int(match[5] or number))


def load(connection: sqlite3.Connection, target: Messages) -> list[Stored]:
    return messages_between(connection, target.conversation, target.first, target.last)


def _messages(
    connection: sqlite3.Connection, conversation: int, prefix: str, first: int, last: int
) -> Messages:
    first, last = min(first, last), max(first, last)
    (newest,) = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM messages WHERE conversation = ?", (conversation,)
    ).fetchone()
    if first < 1 or first > newest:
        there = f"has {prefix}m1 to {prefix}m{newest}" if newest else "has no messages yet"
        raise Refused(f"There is no {prefix}m{first}: the conversation {there}.")
    return Messages(conversation, prefix, first, min(last, newest))


def _summary(
    connection: sqlite3.Connection, place: Place, conversation: int, prefix: str, key: int
) -> Summary:
    row = connection.execute("SELECT * FROM summaries WHERE key = ?", (key,)).fetchone()
    if row is not None and row["conversation"] == conversation:
        return Summary(conversation, prefix, node(row))
    within = conversations_in_reach(connection, place, everywhere=True)
    if row is not None and row["conversation"] in within:
        raise Refused(f"s{key} is in another conversation: ask for `c{row['conversation']}.s{key}`.")
    raise Refused(
        f"There is no summary {prefix}s{key}. `lcm_describe` without an id lists those of the present context."
    )
