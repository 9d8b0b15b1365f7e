"""Encodes inbound messages and commands as inbox rows, and decodes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from pydantic import TypeAdapter

from agent.ids import id_from
from agent.store import Address, Conversation
from gateway.store.ports import InboxMessage, Payload
from gateway.types import Author, ChatMessage, CommandCall, InboundMessage, Place, parse_command

Fetch = Callable[[str, str, int | None, int], Awaitable[bytes]]
"""`ChatPort.fetch`."""


@dataclass(frozen=True, slots=True)
class _LocalPayload:
    """A message of the web chat or the terminal, whose reader polls for the answer."""

    address: Address
    person: str
    text: str


@dataclass(frozen=True, slots=True)
class _CommandPayload:
    """A command that was not written in a chat, such as a button of the dashboard."""

    conversation_id: str
    actor: str
    command: CommandCall
    text: str
    """The command as reports show it."""


_LOCAL = TypeAdapter(_LocalPayload)
_COMMAND = TypeAdapter(_CommandPayload)
_CHAT = TypeAdapter(ChatMessage)
_NOT_STORED: Any = {"command": True, "further_parts": True, "attachments": {"__all__": {"read"}}}


def inbox_id(platform: str, place: Place, message_id: str) -> str:
    """Derive the inbox id from the service's id, so that a message delivered twice is stored once."""
    return id_from("msg", platform, place.chat_id, place.thread_id, message_id)


def encode_local(inbound: InboundMessage) -> InboxMessage:
    payload = _LocalPayload(inbound.address, inbound.person, inbound.text)
    return InboxMessage(inbound.id, inbound.address.platform, asdict(payload))


def decode_local(row: InboxMessage) -> InboundMessage:
    """Raises ValueError if the payload is not a local message."""
    payload = _LOCAL.validate_python(row.payload)
    command = parse_command(payload.text)
    return InboundMessage(payload.address, payload.person, payload.text, row.id, command)


def encode_command(
    conversation: Conversation, inbound: InboundMessage, reply_to: Place | None
) -> InboxMessage:
    assert inbound.command is not None
    payload = _CommandPayload(conversation.id, inbound.sender, inbound.command, inbound.text)
    return InboxMessage(inbound.id, inbound.address.platform, asdict(payload), reply_to)


def is_command_row(row: InboxMessage) -> bool:
    # Rows of another version, or of a damaged file, may hold anything.
    return isinstance(row.payload, dict) and "command" in row.payload


def decode_command(row: InboxMessage) -> tuple[str, str, CommandCall]:
    """Return the conversation's id, the actor and the command. Raises ValueError if the payload is not a command."""
    payload = _COMMAND.validate_python(row.payload)
    return payload.conversation_id, payload.actor, payload.command


def encode(message: ChatMessage) -> Payload:
    """Encode a chat message. An attachment is encoded as a reference to the service's copy."""
    payload: Payload = _CHAT.dump_python(message, exclude=_NOT_STORED)
    return payload


def decode(payload: Payload, fetch: Fetch) -> ChatMessage:
    """Raises KeyError, TypeError or ValueError if the payload is not a chat message."""
    files = [
        {**file, "read": partial(fetch, file["ref"], file["name"], file["size"])}
        for file in payload["attachments"]
    ]
    return _CHAT.validate_python({**payload, "attachments": files})


class BotAddresses:
    """Derives ids and addresses from the data of a chat service.

    With `per_person`, every member of a group has a conversation of their own."""

    def __init__(self, platform: str, *, per_person: bool) -> None:
        self._platform = platform
        self._service = platform.partition("/")[0]
        """The bots `telegram` and `telegram/work` know the same people by the same ids."""
        self._per_person = per_person

    def message_ids(self, message: ChatMessage) -> list[str]:
        """Return the inbox ids of a message and of the parts that were joined to it."""
        return [
            inbox_id(self._platform, message.place, each) for each in (message.id, *message.further_parts)
        ]

    def person_key(self, author: Author) -> str:
        """Return the key under which limits, budget and memory know a person."""
        return f"{self._service}:{author.id}"

    def address(self, message: ChatMessage) -> Address:
        """Return the address of the conversation that the message belongs to."""
        place = message.place
        user_id = message.author.id if place.kind == "group" and self._per_person else ""
        return Address(self._platform, place.chat_id, place.thread_id, user_id)

    def scope(self, place: Place, author: Author) -> str:
        """Return the scope of the memory and the searches of a conversation.

        A direct chat has the scope of its person. A group or thread has its own scope, because it has other readers
        than the person's direct chat and other groups."""
        if place.kind == "direct":
            return self.person_key(author)
        group = f"{self._service}:group:{place.chat_id}"
        group += f":{place.thread_id}" if place.thread_id else ""
        return f"{group}:by:{author.id}" if self._per_person else group
