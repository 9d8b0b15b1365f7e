"""Translates errors of discord.py into those of `gateway/chat/errors.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import aiohttp
import discord

from gateway.chat.errors import (
    ConnectionRefused,
    ContentRefused,
    DeliveryError,
    MessageGone,
    SlowDown,
    Undeliverable,
    Unreachable,
)

NETWORK_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)
SERVICE_ERRORS = (discord.HTTPException, discord.RateLimited, *NETWORK_ERRORS)
"""Errors that a request to Discord may raise."""
CLOSED_CLIENT_ERRORS = (*SERVICE_ERRORS, discord.ClientException, AttributeError, RuntimeError, TypeError)
"""Errors that a request of a closed client may raise."""
_UNREADABLE = (AttributeError, KeyError, TypeError, ValueError)
"""Raised by discord.py for a successful response whose body is not what the request returns."""
GONE_ERRORS = (discord.Forbidden, discord.NotFound)
"""Errors that a retry would meet again."""

LOGIN_REFUSED = (
    "Discord does not accept the token. In the Developer Portal choose the application, then Bot -> Reset Token, "
    "and set DISCORD_BOT_TOKEN (or `platforms.discord.token`) to the new one."
)
LOGIN_MISSING = (
    "there is no token. Set DISCORD_BOT_TOKEN, or `platforms.discord.token`; `hermes setup` guides you."
)
MISSING_INTENT = (
    "the bot may not read messages. In the Developer Portal choose the application, then Bot, and switch on "
    "Message Content Intent."
)
NO_NETWORK = "Check the network and discordstatus.com; Hermes keeps trying."
INTERRUPTED = "The connection to Discord is interrupted; Hermes is restoring it."
STORE_UNAVAILABLE = "Hermes receives nothing from Discord while the store fails; it keeps trying."

_TOKEN_REFUSED = 4004
_FATAL_CLOSES = range(4010, 4014)
_DEFAULT_RETRY_SECONDS = 60.0
"""Delay after a 429 that names no time, as Discord's proxy sends it."""

_BY_CODE: dict[int, type[DeliveryError]] = {
    10003: Undeliverable,  # unknown channel
    10008: MessageGone,  # unknown message
    30046: MessageGone,  # too many edits of an old message
    50001: Undeliverable,  # no access
    50005: MessageGone,  # another author's message
    50007: Undeliverable,  # this person accepts no direct messages
    50013: Undeliverable,  # no permission
    50033: Undeliverable,  # no such person
    50035: ContentRefused,  # invalid body
    50083: Undeliverable,  # archived thread
    160005: Undeliverable,  # locked thread
}
_BY_STATUS: dict[int, type[DeliveryError]] = {
    400: ContentRefused,
    403: Undeliverable,
    404: Undeliverable,
    413: ContentRefused,
}

CodeMeanings = Mapping[int, tuple[type[DeliveryError], str]]
"""Meaning of error codes for one kind of request, where it differs from the usual."""

ARCHIVED_FOR_EDITS: CodeMeanings = {50083: (MessageGone, "(the thread is archived)")}
"""A new message moves the thread out of the archive."""

NO_FILES_HERE: CodeMeanings = {50013: (ContentRefused, "(the bot may not send files here)")}
"""Text may still be allowed."""

DEFAULT_MEANINGS: CodeMeanings = {}


@contextmanager
def delivery_errors(meanings: CodeMeanings = DEFAULT_MEANINGS) -> Iterator[None]:
    """Translate the errors of a request into a DeliveryError."""
    try:
        yield
    except discord.RateLimited as error:
        raise SlowDown(error.retry_after) from error
    except discord.HTTPException as error:
        raise _delivery_error(error, meanings) from error
    except aiohttp.ClientConnectorError as error:
        raise Unreachable(type(error).__name__, maybe_done=False) from error
    except NETWORK_ERRORS as error:
        raise Unreachable(type(error).__name__) from error
    except _UNREADABLE as error:
        # Discord accepted the request, so it may have carried it out.
        raise Unreachable(f"(an unreadable response: {type(error).__name__})") from error


def _delivery_error(error: discord.HTTPException, meanings: CodeMeanings) -> DeliveryError:
    if error.status == 429:
        return _too_many_requests(error)
    if error.status >= 500:
        return Unreachable(f"(Discord answers {error.status})")
    if error.code in meanings:
        special, detail = meanings[error.code]
        return special(detail)
    kind = _BY_CODE.get(error.code) or _BY_STATUS.get(error.status)
    if kind is None:
        return Unreachable(f"(Discord answers {error.status})", maybe_done=False)
    return kind(f"(Discord: {error.text[:200] or error.status}, code {error.code})")


def _too_many_requests(error: discord.HTTPException) -> SlowDown:
    try:
        return SlowDown(float(error.response.headers.get("Retry-After") or _DEFAULT_RETRY_SECONDS))
    except ValueError:
        return SlowDown(_DEFAULT_RETRY_SECONDS)


@contextmanager
def connection_errors() -> Iterator[None]:
    """Translate the errors of a connection: ConnectionRefused needs a person, the others are retried."""
    try:
        yield
    except discord.LoginFailure as error:
        raise ConnectionRefused(LOGIN_REFUSED) from error
    except discord.PrivilegedIntentsRequired as error:
        raise ConnectionRefused(MISSING_INTENT) from error
    except discord.ConnectionClosed as error:
        if error.code == _TOKEN_REFUSED:
            raise ConnectionRefused(LOGIN_REFUSED) from error
        if error.code in _FATAL_CLOSES:
            raise ConnectionRefused(f"Discord closes the connection with code {error.code}.") from error
        raise Unreachable(f"Discord closed the connection with code {error.code}.") from error
    except discord.HTTPException as error:
        if error.status == 429:
            raise _too_many_requests(error) from error
        raise Unreachable(f"Discord answers {error.status}; Hermes keeps trying.") from error
    except discord.RateLimited as error:
        raise SlowDown(error.retry_after) from error
    except NETWORK_ERRORS as error:
        raise Unreachable(NO_NETWORK) from error
