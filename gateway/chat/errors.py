"""Errors of chat services, by the reaction that each one needs.

DeliveryError
├── SlowDown           wait `retry_after` seconds, then repeat the call
├── Unreachable        repeat the call; if `maybe_done`, it may have succeeded
├── MessageGone        the message can no longer be edited; send another
├── ContentRefused     the service rejects this text; do not send it again
├── Undeliverable      the bot is blocked, was removed, or has no permission
└── ChatMoved          the chat has another id now
AttachmentRefused      a received file cannot be accepted (gateway/errors.py)
ConnectionRefused      a bot cannot connect until a person changes something
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
    """The chat service rejected this message."""


class Undeliverable(DeliveryError):
    """This chat cannot be reached."""


class ChatMoved(DeliveryError):
    """The chat has moved."""

    def __init__(self, new_chat_id: str) -> None:
        super().__init__(f"(to {new_chat_id})")
        self.new_chat_id = new_chat_id


class ConnectionRefused(HermesError):
    """The bot cannot connect:"""
