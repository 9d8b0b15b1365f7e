"""What python-telegram-bot raises, told in the gateway's own errors.

HermesError
├── NotReached         tried again
├── SecondPoller       tried again
├── WentSilent         tried again
├── WebhookReplaced    tried again
├── WebhookNotHeard    tried again: its port cannot be opened
└── DeliveryError
    └── Undeliverable
        └── NotPermitted    an administrator took the right away
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    TelegramError,
)

from agent.errors import HermesError
from gateway.chat.errors import (
    ChatMoved,
    ConnectionRefused,
    ContentRefused,
    DeliveryError,
    MessageGone,
    SlowDown,
    Undeliverable,
    Unreachable,
)


class NotReached(HermesError):
    """Telegram cannot be reached; check the network and `base_url`. Hermes keeps trying."""


class SecondPoller(HermesError):
    """Another program is polling with this token; stop it, or take a token of its own for each. Hermes keeps trying."""


class WentSilent(HermesError):
    """Telegram stopped answering in the middle of a poll; Hermes connects anew."""


class WebhookReplaced(HermesError):
    """Another program has changed the bot's webhook; stop it, or take a token of its own for each."""


class WebhookNotHeard(HermesError):
    """Hermes cannot listen for Telegram; free the port, or change `webhook.host` and `webhook.port`:"""


class NotPermitted(Undeliverable):
    """The bot may not do this in this chat; it may do other things there."""


class TooManyRequests(TelegramError):
    """429."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"Too many requests, retry after {retry_after:g} s")
        self.retry_after = retry_after


_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)

_UNREADABLE = (AttributeError, KeyError, TypeError, ValueError)
"""What the library, or whoever reads its result, raises over an answer that is not what the method returns."""

_GONE = (
    "message to edit not found",
    "message to delete not found",
    "message can't be edited",
    "message can't be deleted",
    "message_delete_forbidden",
    "message_author_required",
    "message_id_invalid",
    "there is no text in the message",
)
_NOBODY_THERE = (
    "chat not found",
    "user not found",
    "user is deactivated",
    "peer_id_invalid",
    "chat_write_forbidden",
    "chat_restricted",
    "group chat was deactivated",
    "topic_closed",
    "topic closed",
    "topic_deleted",
    "topic_id_invalid",
    "message thread not found",
)
_NOT_PERMITTED = (
    "not enough rights",
    "have no rights",
    "need administrator rights",
    "chat_admin_required",
    "_forbidden",
)


@contextmanager
def delivering() -> Iterator[None]:
    """Whatever Telegram's library raises inside comes out as a DeliveryError, with nothing of the library behind it."""
    try:
        yield
    except TelegramError as error:
        raise delivery_failure(error) from None
    except _UNREADABLE as error:
        # The call was accepted, so it may have been carried out.
        raise Unreachable(f"(an unreadable answer: {type(error).__name__})") from None


def delivery_failure(error: TelegramError) -> DeliveryError:
    match error:
        case TooManyRequests():
            return SlowDown(error.retry_after)
        case ChatMigrated():
            return ChatMoved(str(error.new_chat_id))
        case Forbidden():
            return _refusal(error.message, otherwise=Undeliverable)
        case BadRequest():
            return _refusal(error.message, otherwise=ContentRefused)
        case InvalidToken() | Conflict():
            return Unreachable(f"({error.message})", maybe_done=False)
    if "too large" in error.message.lower():
        return ContentRefused("(too large)")
    return Unreachable(maybe_done=not isinstance(error.__cause__, _NEVER_SENT))


def _refusal(message: str, *, otherwise: type[DeliveryError]) -> DeliveryError:
    said = message.lower()
    for kind, signs in (
        (MessageGone, _GONE),
        (Undeliverable, _NOBODY_THERE),
        (NotPermitted, _NOT_PERMITTED),
    ):
        if any(sign in said for sign in signs):
            return kind(f"({message})")
    return otherwise(f"({message})")


def token_place(bot_name: str) -> str:
    return f"`platforms.telegram.bots.{bot_name}.token`" if bot_name else "TELEGRAM_BOT_TOKEN"


def connection_failure(error: TelegramError, bot_name: str = "") -> HermesError:
    """Why no messages come in."""
    match error:
        case InvalidToken():
            return ConnectionRefused(
                "Telegram does not know its token (or `base_url` is no Bot API server); "
                f"ask @BotFather for a new token and set {token_place(bot_name)}."
            )
        case Conflict():
            return SecondPoller()
        case TooManyRequests():
            return SlowDown(error.retry_after)
        case BadRequest():
            return ConnectionRefused(f"Telegram does not take these settings: {error.message}.")
    return NotReached()
