"""What discord.py raises, told in the words of `gateway/chat/errors.py`."""

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
"""Whatever a request to Discord may end with."""
_UNREADABLE = (AttributeError, KeyError, TypeError, ValueError)
"""Raised by discord.py for a successful response whose body is not what the request returns."""
GONE = (discord.Forbidden, discord.NotFound)
"""It would end like this again."""

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
DEAF = "Nothing is taken in from Discord while the store refuses; Hermes keeps trying."

_TOKEN_REFUSED = 4004
_FATAL_CLOSES = range(4010, 4014)
_BAN_SECONDS = 60.0
"""How long to keep still when Discord's front door, which names no time, says that there were too many requests."""

_BY_CODE: dict[int, type[DeliveryError]] = {
    10003: Undeliverable,  # unknown channel
    10008: MessageGone,  # unknown message
    30046: MessageGone,  # too many edits of an old message
    50001: Undeliverable,  # no access
    50005: MessageGone,  # somebody else's message
    50007: Undeliverable,  # this person takes no direct messages
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

Meanings = Mapping[int, tuple[type[DeliveryError], str]]
"""What a code means for one kind of request."""

ARCHIVED_FOR_EDITS: Meanings = {50083: (MessageGone, "(the thread is archived)")}
"""A new message takes the thread out of the archive."""

NO_FILES_HERE: Meanings = {50013: (ContentRefused, "(the bot may not send files here)")}
"""Words may still be welcome."""

LIKE_EVERYWHERE: Meanings = {}


@contextmanager
def delivery_errors(meanings: Meanings = LIKE_EVERYWHERE) -> Iterator[None]:
    """Raises one of the errors of a ChatPort for whatever a request ends with."""
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


def _delivery_error(error: discord.HTTPException, meanings: Meanings) -> DeliveryError:
    if error.status == 429:
        return _front_door(error)
    if error.status >= 500:
        return Unreachable(f"(Discord answers {error.status})")
    if error.code in meanings:
        special, detail = meanings[error.code]
        return special(detail)
    kind = _BY_CODE.get(error.code) or _BY_STATUS.get(error.status)
    if kind is None:
        return Unreachable(f"(Discord answers {error.status})", maybe_done=False)
    return kind(f"(Discord: {error.text[:200] or error.status}, code {error.code})")


def _front_door(error: discord.HTTPException) -> SlowDown:
    try:
        return SlowDown(float(error.response.headers.get("Retry-After") or _BAN_SECONDS))
    except ValueError:
        return SlowDown(_BAN_SECONDS)


@contextmanager
def connection_errors() -> Iterator[None]:
    """Tells apart what a person must mend and what time will mend."""
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
            raise _front_door(error) from error
        raise Unreachable(f"Discord answers {error.status}; Hermes keeps trying.") from error
    except discord.RateLimited as error:
        raise SlowDown(error.retry_after) from error
    except NETWORK_ERRORS as error:
        raise Unreachable(NO_NETWORK) from error
