"""Reads `result.json` of Telegram Desktop: an export of one chat or of a whole account."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent.messages import Message
from gateway.importers.parsing import items, mapping, moment, text
from gateway.store.import_types import (
    ImportedConversation,
    ImportedSession,
    address_of,
    message_id,
    session_id,
)

_BOT_CHAT = "bot_chat"
_MEDIA = ("photo", "file")


def is_telegram(given: dict[str, Any]) -> bool:
    return bool(_chats(given))


def conversations(given: dict[str, Any], *, person: str, assistant: str) -> Iterator[ImportedConversation]:
    for chat in _chats(given):
        imported = _conversation(chat, person, assistant)
        if imported.messages:
            yield imported


def _chats(given: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the chat of a single export, or all chats of a full export, including chats that were left."""
    folders = (mapping(given.get(name)) for name in ("chats", "left_chats"))
    listed = [given, *(mapping(chat) for folder in folders for chat in items(folder.get("list")))]
    return [chat for chat in listed if "id" in chat and "type" in chat and "messages" in chat]


def _conversation(chat: dict[str, Any], person: str, assistant: str) -> ImportedConversation:
    address = address_of("telegram", str(chat["id"]))
    # A chat with a bot has the id of the bot.
    speaks_for_us = assistant or (f"user{chat['id']}" if chat.get("type") == _BOT_CHAT else "")
    messages: dict[str, Message] = {}
    left_out = 0
    for given in map(mapping, items(chat["messages"])):
        said = _said(given)
        if given.get("type") != "message" or not said:
            left_out += 1
            continue
        made = message_id(address, str(given.get("id")))
        by_us = speaks_for_us and speaks_for_us in _names(given)
        messages[made] = Message(
            "assistant" if by_us else "user",
            said,
            name=None if by_us else text(given.get("from")) or None,
            id=made,
            created_at=moment(given.get("date_unixtime"), given.get("date")),
        )
    began = min((message.created_at for message in messages.values()), default=0.0)
    session = ImportedSession(session_id(address), began, list(messages.values()))
    return ImportedConversation(address, person, [session], session.id, left_out)


def _names(given: dict[str, Any]) -> set[str]:
    """Return the names and ids by which the owner may refer to the author."""
    number = text(given.get("from_id"))
    return {number, number.removeprefix("user"), text(given.get("from"))} - {""}


def _said(given: dict[str, Any]) -> str:
    """Return the text and a placeholder for other content."""
    pieces = given.get("text")
    parts = [pieces] if isinstance(pieces, str) else items(pieces)
    said = "".join(text(part) or text(mapping(part).get("text")) for part in parts)
    media = text(given.get("media_type")) or next((kind for kind in _MEDIA if given.get(kind)), "")
    name = text(given.get("file_name"))
    note = f"[{media.replace('_', ' ')}{f': {name}' if name else ''}]" if media else ""
    return "\n".join(filter(None, [note, said]))
