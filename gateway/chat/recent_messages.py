"""A chat message as it lies in the inbox, and back."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from gateway.types import ChatMessage, InboundMessage, Place

_MOST = 10_000


@dataclass(slots=True)
class SeenMessage:
    """A message that was seen."""

    text: str
    overheard: bool = False
    """It was not meant for the bot."""
    conversation_id: str = ""
    inbound: InboundMessage | None = None
    """What was handed in, if it can be put in the place of a changed one: a plain text and nothing around it."""


class RecentMessages:
    """The newest messages by place and id; the oldest are forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Place, str], SeenMessage] = OrderedDict()

    def add(self, message: ChatMessage) -> None:
        self._known[message.place, message.id] = SeenMessage(message.text)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)

    def forget(self, message: ChatMessage) -> None:
        """It could not be taken, and will come again."""
        self._known.pop((message.place, message.id), None)

    def get(self, message: ChatMessage) -> SeenMessage | None:
        return self._known.get((message.place, message.id))
