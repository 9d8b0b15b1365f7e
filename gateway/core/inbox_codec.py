"""Encodes inbound messages as inbox rows, and decodes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import partial

from pydantic import TypeAdapter

from agent.ids import id_from
from agent.store import Address
from gateway.store.ports import InboxMessage, Payload
from gateway.types import ChatMessage, InboundMessage, Place

Fetch = Callable[[str, str, int | None, int], Awaitable[bytes]]
"""`ChatPort.fetch`."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is kept of a message to which a person comes and reads the answer; chats have more to keep."""

    address: Address
    person: str
    text: str


_KEPT = TypeAdapter(_Kept)


def encode_local(inbound: InboundMessage) -> InboxMessage:
    kept = _Kept(inbound.address, inbound.person, inbound.text)
    return InboxMessage(inbound.id, inbound.address.platform, asdict(kept))


def decode_local(taken: InboxMessage) -> InboundMessage:
    """Raises ValueError for what was not made here."""
    kept = _KEPT.validate_python(taken.payload)
    return InboundMessage(kept.address, kept.person, kept.text, id=taken.id, is_taken=True)


_MESSAGE = TypeAdapter(ChatMessage)


def inbox_id(platform: str, place: Place, message_id: str) -> str:
    """The same whenever it is delivered, so that a message is stored once."""
    return id_from("msg", platform, place.chat_id, place.thread_id, message_id)


def encode(message: ChatMessage) -> Payload:
    """All of it; of a file, where the service keeps it."""
    kept = {
        name: getattr(message, name)
        for name in ("id", "text", "addressed", "album", "maybe_unfinished", "written_at")
    }
    return kept | {
        "place": asdict(message.place),
        "author": asdict(message.author),
        "quote": asdict(message.quote) if message.quote else None,
        "attachments": [
            {name: getattr(file, name) for name in ("name", "mime", "kind", "size", "ref")}
            for file in message.attachments
        ],
    }


def decode(payload: Payload, fetch: Fetch) -> ChatMessage:
    """Raises KeyError, TypeError or ValueError for what it has not written itself."""
    files = [
        {**file, "read": partial(fetch, file["ref"], file["name"], file["size"])}
        for file in payload["attachments"]
    ]
    return _MESSAGE.validate_python({**payload, "attachments": files})
