"""What can be seen of a Hermes from outside, once everything is quiet: the ground on which it is judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Said:
    """A message of a person's."""

    token: int
    chat: str
    """`telegram:1001`"""
    number: str = ""
    """The platform's own."""
    accepted: bool = True
    """False: the sender was never told that it has arrived, so it need not have."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A message of the bot's that can be seen."""

    chat: str
    number: str
    text: str
    reply_to: str = ""
    uncertain: bool = False
    """Hermes was killed when it could not yet know that this has arrived."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A row of what was said."""

    chat: str
    role: Literal["user", "assistant", "tool"]
    content: str
    id: str = ""
    keys: tuple[str, ...] = ()
    """The tool calls of an assistant's row; of a tool's row, what it is a result of."""


@dataclass(frozen=True, slots=True)
class Open:
    """A row of the inbox or outbox that is not at its end."""

    box: Literal["inbox", "outbox"]
    id: str
    state: str
    reason: str = ""


@dataclass(slots=True)
class Observed:
    said: Sequence[Said] = ()
    """In the order in which the platforms took them."""
    shown: Sequence[Shown] = ()
    """In the order of their chats."""
    stored: Sequence[Stored] = ()
    """In the order in which they were stored."""
    executed: Sequence[str] = ()
    """Keys of the tool calls whose effect has happened."""
    unfinished: Sequence[Open] = ()
    damage: Sequence[str] = field(default_factory=list)
    """What the database says about itself, if it is not whole."""
