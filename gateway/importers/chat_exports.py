"""Reads chats that people exported: `result.json` of Telegram Desktop and JSON files of DiscordChatExporter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agent.messages import Message
from agent.store import Address
from gateway.importers.parsing import items, mapping, moment, text
from gateway.store.import_types import (
    ImportedConversation,
    ImportedSession,
    address_of,
    message_id,
    session_id,
)

_TELEGRAM_MEDIA = ("photo", "file")
_DISCORD_MESSAGES = {"Default", "Reply", "0", "19"}


@dataclass(slots=True)
class ExportedChat:
    address: Address
    messages: dict[str, Message] = field(default_factory=dict)
    """Messages by id: an export may contain one twice."""
    left_out: int = 0

    def add(self, original_id: object, said: str, author: str, *, by_agent: bool, at: float) -> None:
        made = message_id(self.address, str(original_id))
        self.messages[made] = Message(
            "assistant" if by_agent else "user",
            said,
            name=None if by_agent else author or None,
            id=made,
            created_at=at,
        )

    def as_conversation(self, person: str) -> ImportedConversation:
        messages = list(self.messages.values())
        began = min((message.created_at for message in messages), default=0.0)
        session = ImportedSession(session_id(self.address), began, messages)
        return ImportedConversation(self.address, person, [session], session.id, self.left_out)


# -- Telegram Desktop ----------------------------------------------------------------------------------------


def read_telegram(given: dict[str, Any], assistant: str) -> list[ExportedChat]:
    """Return the chat of a single export, or all chats of a full export, including chats that were left."""
    folders = (mapping(given.get(name)) for name in ("chats", "left_chats"))
    listed = [given, *(mapping(chat) for folder in folders for chat in items(folder.get("list")))]
    return [
        _telegram_chat(chat, assistant)
        for chat in listed
        if "id" in chat and "type" in chat and "messages" in chat
    ]


def _telegram_chat(given: dict[str, Any], assistant: str) -> ExportedChat:
    chat = ExportedChat(address_of("telegram", str(given["id"])))
    # A chat with a bot has the id of the bot.
    agent = assistant or (f"user{given['id']}" if given.get("type") == "bot_chat" else "")
    for each in map(mapping, items(given["messages"])):
        said = _telegram_text(each)
        if each.get("type") != "message" or not said:
            chat.left_out += 1
            continue
        author, number = text(each.get("from")), text(each.get("from_id"))
        by_agent = bool(agent) and agent in (author, number, number.removeprefix("user"))
        at = moment(each.get("date_unixtime"), each.get("date"))
        chat.add(each.get("id"), said, author, by_agent=by_agent, at=at)
    return chat


def _telegram_text(given: dict[str, Any]) -> str:
    """Return the text and a placeholder for other content."""
    pieces = given.get("text")
    parts = [pieces] if isinstance(pieces, str) else items(pieces)
    said = "".join(text(part) or text(mapping(part).get("text")) for part in parts)
    media = text(given.get("media_type")) or next((kind for kind in _TELEGRAM_MEDIA if given.get(kind)), "")
    name = text(given.get("file_name"))
    note = f"[{media.replace('_', ' ')}{f': {name}' if name else ''}]" if media else ""
    return "\n".join(filter(None, [note, said]))


# -- DiscordChatExporter -------------------------------------------------------------------------------------


def read_discord(given: dict[str, Any], assistant: str) -> list[ExportedChat]:
    """Return the channel, thread or direct chat; an empty list if the file is not from DiscordChatExporter."""
    channel = mapping(given.get("channel"))
    if "id" not in channel or not isinstance(given.get("messages"), list):
        return []
    chat = ExportedChat(address_of("discord", str(channel["id"])))
    is_direct = channel.get("type") == "DirectTextChat"
    for each in map(mapping, given["messages"]):
        files = [text(mapping(file).get("fileName")) or "unnamed" for file in items(each.get("attachments"))]
        parts = [*(f"[file: {name}]" for name in files), text(each.get("content"))]
        said = "\n".join(filter(None, parts))
        if str(each.get("type", "Default")) not in _DISCORD_MESSAGES or not said:
            chat.left_out += 1
            continue
        author = mapping(each.get("author"))
        name, nickname = text(author.get("name")), text(author.get("nickname"))
        # In a direct chat the bot is the agent. In a server there may be several bots.
        by_agent = is_direct and author.get("isBot") is True
        if assistant:
            by_agent = assistant in (str(author.get("id", "")), name, nickname)
        at = moment(each.get("timestamp"))
        chat.add(each.get("id"), said, nickname or name, by_agent=by_agent, at=at)
    # The exporter can also write the newest first.
    chat.messages = dict(sorted(chat.messages.items(), key=lambda item: item[1].created_at))
    return [chat]
