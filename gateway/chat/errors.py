"""What can go wrong between Hermes and a chat service, by what is to be done about it.

DeliveryError
├── SlowDown           wait `retry_after` seconds, then do it again
├── Unreachable        try again; if `maybe_done`, it may have been carried out already
├── MessageGone        that message cannot be edited any more; send another
├── ContentRefused     the service does not take this text; sending it again is useless
├── Undeliverable      nobody is there: blocked, kicked, deleted, no permission
└── ChatMoved          the chat has another id now
AttachmentRefused      a file that came in cannot be taken
ConnectionRefused      a bot cannot connect and a person has to do something about it
"""

from __future__ import annotations

from agent.errors import HermesError


class DeliveryError(HermesError):
    """The message could not be delivered."""


class SlowDown(DeliveryError):
    """The chat service asks for a pause."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"({retry_after:g} s)")
        self.retry_after = retry_after


class Unreachable(DeliveryError):
    """The chat service could not be reached."""

    def __init__(self, detail: str = "", *, maybe_done: bool = True) -> None:
        super().__init__(detail)
        self.maybe_done = maybe_done


class MessageGone(DeliveryError):
    """The message can no longer be changed."""


class ContentRefused(DeliveryError):
    """The chat service does not take this message."""


class Undeliverable(DeliveryError):
    """Nobody can be reached in this chat."""


class ChatMoved(DeliveryError):
    """The chat has moved."""

    def __init__(self, new_chat_id: str) -> None:
        super().__init__(f"(to {new_chat_id})")
        self.new_chat_id = new_chat_id


class ConnectionRefused(HermesError):
    """The bot cannot connect:"""
