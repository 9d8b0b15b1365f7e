"""Is this token good, and whose is it? One or two light requests find out.

A token is part of Telegram's addresses, so no error here carries an address, or the words of a library that might.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

import aiohttp

from agent.errors import HermesError
from gateway.config.schema_platforms import DiscordBotConfig, PlatformsConfig, TelegramBotConfig
from gateway.config.secrets import token_problem

Bot = TelegramBotConfig | DiscordBotConfig


def bots(platforms: PlatformsConfig) -> Iterator[tuple[str, Bot]]:
    """`telegram`, `telegram/work`, `discord`, ...; also those that are switched off."""
    yield "telegram", platforms.telegram
    for name, telegram in platforms.telegram.bots.items():
        yield f"telegram/{name}", telegram
    yield "discord", platforms.discord
    for name, discord in platforms.discord.bots.items():
        yield f"discord/{name}", discord


SECONDS_TO_ANSWER = 15

_REFUSALS = (401, 403, 404)
"""Telegram answers 404 to what does not even look like a token."""

_MAY_READ_MESSAGES = 1 << 18 | 1 << 19
"""Flags of an application: the Message Content intent is on, for one in many servers or for one in few."""

INTENT_OFF = "It may not read messages: its Message Content Intent is off."
PERMISSIONS = sum(
    1 << bit
    for bit in (
        10,  # see channels
        11,  # send messages
        15,  # attach files
        16,  # read what was said before
        38,  # send messages in threads
    )
)


class BotTokenRefused(HermesError):
    """The token is not right:"""


class BotUnreachable(HermesError):
    """The token could not be tried:"""


@dataclass(frozen=True, slots=True)
class BotAccount:
    """Whom a token belongs to."""

    name: str
    link: str
    """Where a person begins: a chat with the bot, or the page that invites it to a server."""
    owner_id: str = ""
    """Whose bot it is, where the service tells."""
    owner_name: str = ""
    problem: str = ""
    """What keeps it from working although the token is good."""
    clock_ahead: float = 0.0
    """By how many seconds the clock of this machine is ahead of the service's."""


def ask_bot(settings: Bot, token: str) -> BotAccount:
    """Raises BotTokenRefused or BotUnreachable; neither says the token."""
    if isinstance(settings, TelegramBotConfig):
        return asyncio.run(_ask_telegram(settings, token.strip()))
    return asyncio.run(_ask_discord(settings, token.strip()))


async def _ask_telegram(settings: TelegramBotConfig, token: str) -> BotAccount:
    if problem := token_problem("telegram", token):
        raise BotTokenRefused(f"{problem}.")
    # Like the bot itself, it goes through a proxy where the environment names one.
    async with _session(trust_env=True) as http:
        status, answer, ahead = await _get(http, settings.base_url, f"/bot{token}/getMe")
    if status in _REFUSALS and "ok" in answer:
        raise BotTokenRefused("Telegram does not know it. Copy it again from @BotFather, all of it.")
    if status != 200 or not isinstance(answer.get("result"), dict):
        raise _strange(settings.base_url, status, "platforms.telegram.base_url")
    username = str(answer["result"].get("username", ""))
    return BotAccount(f"@{username}", f"https://t.me/{username}", clock_ahead=ahead)


async def _ask_discord(settings: DiscordBotConfig, token: str) -> BotAccount:
    if problem := token_problem("discord", token):
        raise BotTokenRefused(f"{problem}.")
    headers = {"Authorization": f"Bot {token}", "User-Agent": "DiscordBot (hermes-gateway, 1)"}
    async with _session(headers=headers) as http:
        answers = []
        for path in ("/users/@me", "/oauth2/applications/@me"):
            status, answer, ahead = await _get(http, settings.api_base, path)
            if status == 401:
                raise BotTokenRefused(
                    "Discord does not know it. In the Developer Portal, under Bot, press Reset Token and copy the "
                    "new one; the client secret and the public key are something else."
                )
            if status != 200 or "id" not in answer:
                raise _strange(settings.api_base, status, "platforms.discord.api_base")
            answers.append(answer)
    return replace(_discord_account(*answers), clock_ahead=ahead)


def _discord_account(user: dict[str, Any], application: dict[str, Any]) -> BotAccount:
    query = {"client_id": application["id"], "scope": "bot applications.commands", "permissions": PERMISSIONS}
    may_read = int(application.get("flags") or 0) & _MAY_READ_MESSAGES
    settings_page = f"https://discord.com/developers/applications/{application['id']}/bot"
    # An application of a team belongs to an account that nobody writes from.
    owner = {} if application.get("team") else application.get("owner") or {}
    return BotAccount(
        str(user.get("username", "")),
        f"https://discord.com/oauth2/authorize?{urlencode(query)}",
        owner_id=str(owner.get("id", "")),
        owner_name=str(owner.get("username", "")),
        problem="" if may_read else f"{INTENT_OFF} Switch it on at {settings_page} and press Save Changes.",
    )


def _session(**options: Any) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS_TO_ANSWER), **options)


async def _get(http: aiohttp.ClientSession, root: str, path: str) -> tuple[int, dict[str, Any], float]:
    """Status and JSON object, an empty one if it was something else; and how far our clock is ahead of theirs. A
    redirect would carry the token elsewhere."""
    host = urlsplit(root).netloc
    try:
        async with http.get(f"{root.rstrip('/')}{path}", allow_redirects=False) as response:
            status, body, date = response.status, await response.read(), response.headers.get("Date", "")
    except TimeoutError:
        raise BotUnreachable(f"{host} did not answer within {SECONDS_TO_ANSWER} seconds.") from None
    except (aiohttp.ClientError, OSError):
        raise BotUnreachable(f"{host} cannot be reached; check the network.") from None
    return status, _json_object(body), _ahead_of(date)


def _ahead_of(date: str) -> float:
    """In seconds; 0 where the service does not tell the time."""
    try:
        return time.time() - parsedate_to_datetime(date).timestamp()
    except ValueError:
        return 0.0


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _strange(root: str, status: int, setting: str) -> BotUnreachable:
    host = urlsplit(root).netloc
    if status == 429 or status >= 500:
        return BotUnreachable(f"{host} is busy or failing (HTTP {status}); try again later.")
    return BotUnreachable(f"{host} gave an unexpected answer (HTTP {status}); check `{setting}`.")
