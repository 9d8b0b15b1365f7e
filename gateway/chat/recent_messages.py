"""Remembers the newest messages of a bot, to ignore repeated deliveries and to apply edits."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from gateway.types import ChatMessage, InboundMessage, Place

_MAX_MESSAGES = 10_000


@dataclass(slots=True)
class SeenMessage:
    """A message that the bot has received."""

    text: str
    is_remark: bool = False
    """Whether the message was said in a group but not to the bot."""
    conversation_id: str = ""
    inbound: InboundMessage | None = None
    """The queued message, if an edit may replace it: plain text without quotes, remarks and files."""


class RecentMessages:
    """The newest messages by place and id."""

    def __init__(self) -> None:
        self._messages: OrderedDict[tuple[Place, str], SeenMessage] = OrderedDict()

    def add(self, message: ChatMessage) -> None:
        self._messages[message.place, message.id] = SeenMessage(message.text)
        if len(self._messages) > _MAX_MESSAGES:
            self._messages.popitem(last=False)

    def forget(self, message: ChatMessage) -> None:
        """Forget a message that could not be persisted; the service delivers it again."""
        self._messages.pop((message.place, message.id), None)

    def get(self, message: ChatMessage) -> SeenMessage | None:
        return self._messages.get((message.place, message.id))
