"""Discord's `PlatformSpec`: setup guide, token probe and factory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from gateway.config.schema_platforms import DiscordBotConfig, DiscordConfig
from gateway.platforms.base import (
    BotAccount,
    BotTokenRefused,
    Platform,
    PlatformContext,
    PlatformSpec,
    SetupGuide,
)

GUIDE = SetupGuide(
    steps=(
        "Open https://discord.com/developers/applications and press New Application; give it a name.",
        "On its page Installation, set Install Link to None and press Save Changes.",
        "On its page Bot, switch Public Bot off, so that only you can add it, and Message Content Intent on; "
        "press Save Changes.",
        "There, press Reset Token. Copy the token and paste it here.",
    ),
    own_id="In Discord: Settings, Advanced, Developer Mode; then right-click your name and Copy User ID.",
    next_step="Invite it to a server you are in, then write to it:",
)

INTENT_OFF = "It may not read messages: its Message Content Intent is off."
_SCOPES = ("bot", "applications.commands")
PERMISSIONS = sum(
    1 << bit
    for bit in (
        10,  # see channels
        11,  # send messages
        15,  # attach files
        16,  # read the message history
        38,  # send messages in threads
    )
)

_MESSAGE_CONTENT_FLAGS = 1 << 18 | 1 << 19
"""Flags of an application whose Message Content intent is on: one in many servers, one in few."""


async def probe(config: DiscordBotConfig, token: str) -> BotAccount:
    """Ask Discord for the bot and its application. Raises BotTokenRefused or BotUnreachable."""
    from gateway.platforms.probe import get_json, probe_session, unexpected  # noqa: PLC0415 - loads aiohttp

    headers = {"Authorization": f"Bot {token}", "User-Agent": "DiscordBot (hermes-gateway, 1)"}
    async with probe_session(headers=headers) as http:
        bodies = []
        for path in ("/users/@me", "/oauth2/applications/@me"):
            status, body, clock_ahead = await get_json(http, config.api_base, path)
            if status == 401:
                raise BotTokenRefused(
                    "Discord does not know it. In the Developer Portal, under Bot, press Reset Token and copy the "
                    "new one; the client secret and the public key are something else."
                )
            if status != 200 or "id" not in body:
                raise unexpected(config.api_base, status, "platforms.discord.api_base")
            bodies.append(body)
    return replace(_account(*bodies), clock_ahead=clock_ahead)


def invite_url(application_id: int | str) -> str:
    query = {"client_id": application_id, "scope": " ".join(_SCOPES), "permissions": PERMISSIONS}
    return f"https://discord.com/oauth2/authorize?{urlencode(query)}"


def _account(user: dict[str, Any], application: dict[str, Any]) -> BotAccount:
    may_read = int(application.get("flags") or 0) & _MESSAGE_CONTENT_FLAGS
    settings_page = f"https://discord.com/developers/applications/{application['id']}/bot"
    # The owner of a team's application is not an account that a person writes from.
    owner = {} if application.get("team") else application.get("owner") or {}
    return BotAccount(
        str(user.get("username", "")),
        invite_url(application["id"]),
        owner_id=str(owner.get("id", "")),
        owner_name=str(owner.get("username", "")),
        problem="" if may_read else f"{INTENT_OFF} Switch it on at {settings_page} and press Save Changes.",
    )


def build(context: PlatformContext) -> Platform:
    from gateway.platforms.discord.platform import DiscordPlatform  # noqa: PLC0415 - loads the SDK

    platform = DiscordPlatform(context.config, context.receiver, context.commands, bot_name=context.bot_name)
    context.on_config_change(platform.apply)
    return platform


DISCORD = PlatformSpec("discord", "Discord", DiscordConfig, build, probe=probe, guide=GUIDE)
