"""A chat message as it lies in the inbox, and back."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

from pydantic import TypeAdapter

from agent.ids import id_from
from gateway.chat.contract import ChatMessage, ChatPort, Place
from gateway.inbox import Payload

_MESSAGE = TypeAdapter(ChatMessage)


def kept_id(platform: str, place: Place, message_id: str) -> str:
    """The same whenever it is delivered, so that a message is stored once."""
    return id_from("msg", platform, place.chat_id, place.thread_id, message_id)


def as_payload(message: ChatMessage) -> Payload:
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


def from_payload(payload: Payload, port: ChatPort) -> ChatMessage:
    """Raises KeyError, TypeError or ValueError for what it has not written itself."""
    files = [
        {**file, "read": partial(port.fetch, file["ref"], file["name"], file["size"])}
        for file in payload["attachments"]
    ]
    return _MESSAGE.validate_python({**payload, "attachments": files})
