"""What is on its way to a chat: committed before it is sent, and known to have arrived, or not.

Each of them is `pending` until a call that makes it visible begins, `sending` while nobody knows whether that call was
carried out, `sent` when all of it is there for good, and `parked` when it could not be brought and is not tried again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Literal, Protocol

from pydantic import TypeAdapter

from agent.events import FileSent
from gateway.chat.contract import Place

UNREADABLE = "It was written down by another version of Hermes and cannot be read."
"""Why something is parked that nothing can be made of."""

Kind = Literal["text", "notice", "file", "fleeting"]
State = Literal["pending", "sending", "sent", "parked"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one of them has come."""

    state: State = "pending"
    """`sending` also where an earlier call is in doubt: what is sent next may be there twice."""
    shown_in: tuple[str, ...] = ()
    """The service's ids of the messages that show it, the newest last."""
    growing: bool = False
    """The newest of them is unfinished: it is still to be edited."""
    dealt: int = 0
    """Characters that are dealt with in finished messages, but for `rest`."""
    rest: str = ""
    """What of those is still to be shown; a code block that goes on is opened again in it."""
    reason: str = ""
    """Why it was parked."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    id: str
    conversation_id: str
    turn_id: str
    """The inbox message that it answers."""
    reply_to: str
    """That one's id on the service."""
    place: Place
    kind: Kind
    content: str | None
    """None while the model is still writing it. Of a passing remark: what it is to say in the end, or None if it is to
    go."""
    progress: Progress = field(default_factory=Progress)


class Outbox(Protocol):
    async def add(
        self, outgoing_id: str, *, conversation_id: str, turn_id: str, kind: Kind, content: str
    ) -> bool:
        """A notice or a file that answers this message. False where its author comes and reads, as on the page: then
        there is nothing to bring."""
        ...

    async def note(self, platform: str, *outgoing: Outgoing) -> None:
        """How far they have come, all of them or none: before a call whose outcome may stay unknown, and after it.

        One that is not known yet is from now on: a text that is shown while it is being written, or a passing remark.
        One that is known keeps its content, until it has arrived; then only that fact is kept, and nothing at all of a
        passing remark."""
        ...

    async def withdraw(self, platform: str) -> None:
        """At a start, before anything is sent: texts that the model had not finished are written anew. What is seen of
        them becomes something that must not stay; only the doubt whether there is more of it stays with them."""
        ...

    async def open(self, platform: str) -> list[Outgoing]:
        """What was neither sent nor parked, in order."""
        ...

    async def counts(self) -> dict[tuple[str, str], int]:
        """How many are `pending`, `sending` and `parked`, by platform and state."""
        ...

    async def is_parked(self, outgoing_id: str) -> bool: ...

    async def may_be_half_seen(self, turn_id: str) -> bool:
        """Whether a part of an unfinished answer to this message may be visible in a message whose id is unknown."""
        ...

    async def unpark(self, outgoing_id: str) -> tuple[str, Outgoing] | None:
        """It is on its way again, on this platform, from where it had come to. None if it is not parked, or if nothing
        can be made of it."""
        ...

    async def dismiss(self, outgoing_id: str) -> bool:
        """Nothing is left to be done about it. False if it is not parked."""
        ...


def file_content(file: FileSent) -> str:
    """A file as the content of its row: where it lies, not what is in it."""
    return json.dumps(asdict(file), ensure_ascii=False)


def file_from(content: str) -> FileSent:
    """Raises ValueError for what was not made here."""
    return _FILE.validate_json(content)


_FILE = TypeAdapter(FileSent)
