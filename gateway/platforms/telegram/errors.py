"""Translates errors of python-telegram-bot into errors of the gateway.

HermesError
├── TelegramUnreachable      retried
├── PollingConflict          retried
├── PollTimedOut             retried
├── WebhookReplaced          retried
├── WebhookPortUnavailable   retried
└── DeliveryError
    └── Undeliverable
        └── MissingRight     an administrator removed the right
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


class TelegramUnreachable(HermesError):
    """Telegram cannot be reached; check the network and `base_url`. Hermes keeps trying."""


class PollingConflict(HermesError):
    """Another program polls with this token; stop it, or give each its own token. Hermes keeps trying."""


class PollTimedOut(HermesError):
    """Telegram stopped answering in the middle of a poll; Hermes reconnects."""


class WebhookReplaced(HermesError):
    """Another program has changed the bot's webhook; stop it, or give each its own token."""


class WebhookPortUnavailable(HermesError):
    """Hermes cannot listen for Telegram; free the port, or change `webhook.host` and `webhook.port`:"""


class MissingRight(Undeliverable):
    """The bot may not do this in this chat; it may do other things there."""


class TooManyRequests(TelegramError):
    """HTTP 429, with the delay that Telegram asks for."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"Too many requests, retry after {retry_after:g} s")
        self.retry_after = retry_after


_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)

_UNREADABLE = (AttributeError, KeyError, TypeError, ValueError)
"""Raised for a successful response whose body is not what the method returns."""

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
_UNDELIVERABLE = (
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
_MISSING_RIGHT = (
    "not enough rights",
    "have no rights",
    "need administrator rights",
    "chat_admin_required",
    "_forbidden",
)


@contextmanager
def delivery_errors() -> Iterator[None]:
    """Translate the library's exceptions into a DeliveryError without a cause, which could hold the token."""
    try:
        yield
    except TelegramError as error:
        raise delivery_error(error) from None
    except _UNREADABLE as error:
        # Telegram accepted the call, so it may have carried it out.
        raise Unreachable(f"(an unreadable response: {type(error).__name__})") from None


def delivery_error(error: TelegramError) -> DeliveryError:
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
    for kind, phrases in (
        (MessageGone, _GONE),
        (Undeliverable, _UNDELIVERABLE),
        (MissingRight, _MISSING_RIGHT),
    ):
        if any(phrase in said for phrase in phrases):
            return kind(f"({message})")
    return otherwise(f"({message})")


def token_setting(bot_name: str) -> str:
    return f"`platforms.telegram.bots.{bot_name}.token`" if bot_name else "TELEGRAM_BOT_TOKEN"


def connection_error(error: TelegramError, bot_name: str = "") -> HermesError:
    """Return the error that says why no messages arrive."""
    match error:
        case InvalidToken():
            return ConnectionRefused(
                "Telegram does not know its token (or `base_url` is not a Bot API server); "
                f"ask @BotFather for a new token and set {token_setting(bot_name)}."
            )
        case Conflict():
            return PollingConflict()
        case TooManyRequests():
            return SlowDown(error.retry_after)
        case BadRequest():
            return ConnectionRefused(f"Telegram refuses these settings: {error.message}.")
    return TelegramUnreachable()
