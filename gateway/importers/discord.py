"""Reads JSON files of DiscordChatExporter: one channel, thread or direct chat each."""

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

_SAID = {"Default", "Reply", "0", "19"}
_DIRECT = "DirectTextChat"


def is_discord(given: dict[str, Any]) -> bool:
    return "id" in mapping(given.get("channel")) and isinstance(given.get("messages"), list)


def conversations(given: dict[str, Any], *, person: str, assistant: str) -> Iterator[ImportedConversation]:
    channel = mapping(given["channel"])
    address = address_of("discord", str(channel["id"]))
    is_direct = channel.get("type") == _DIRECT
    messages: dict[str, Message] = {}
    left_out = 0
    for each in map(mapping, given["messages"]):
        said = _said(each)
        if str(each.get("type", "Default")) not in _SAID or not said:
            left_out += 1
            continue
        author = mapping(each.get("author"))
        # In a direct chat the bot is the agent. In a server there may be several bots.
        by_us = assistant in _names(author) if assistant else is_direct and author.get("isBot") is True
        made = message_id(address, str(each.get("id")))
        messages[made] = Message(
            "assistant" if by_us else "user",
            said,
            name=None if by_us else text(author.get("nickname")) or text(author.get("name")) or None,
            id=made,
            created_at=moment(each.get("timestamp")),
        )
    # The exporter can also write the newest first.
    in_order = sorted(messages.values(), key=lambda message: message.created_at)
    began = in_order[0].created_at if in_order else 0.0
    session = ImportedSession(session_id(address), began, in_order)
    if messages:
        yield ImportedConversation(address, person, [session], session.id, left_out)


def _names(author: dict[str, Any]) -> set[str]:
    """Return the names and ids by which the owner may refer to the author."""
    return {str(author.get("id", "")), text(author.get("name")), text(author.get("nickname"))} - {""}


def _said(given: dict[str, Any]) -> str:
    """Return the text and a placeholder for each file."""
    files = [text(mapping(each).get("fileName")) or "unnamed" for each in items(given.get("attachments"))]
    return "\n".join(filter(None, [*(f"[file: {name}]" for name in files), text(given.get("content"))]))
