"""Telegram's `PlatformSpec`: setup guide, token probe, webhook check and factory."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

from gateway.config.schema_platforms import TelegramBotConfig, TelegramConfig, section_key
from gateway.platforms.base import (
    BotAccount,
    BotTokenRefused,
    Finding,
    Platform,
    PlatformContext,
    PlatformSpec,
    SetupGuide,
    listen_error,
)
from gateway.process_lock import is_running

_REFUSALS = (401, 403, 404)
"""Telegram answers 404 to text that does not look like a token."""

GUIDE = SetupGuide(
    steps=(
        "Open https://t.me/BotFather in Telegram and press Start.",
        "Send /newbot, then a name for the bot, then a user name that ends in `bot`.",
        "BotFather answers with a token such as 123456789:AAF-x2b… Copy it and paste it here.",
    ),
    own_id="Telegram does not show it to you; leave it at `none` if you do not know it.",
    next_step="Write to it at",
)


async def probe(config: TelegramBotConfig, token: str) -> BotAccount:
    """Ask Telegram for the bot's name. Raises BotTokenRefused or BotUnreachable."""
    from gateway.platforms.probe import get_json, probe_session, unexpected  # noqa: PLC0415 - loads aiohttp

    # Like the bot itself, the probe uses the proxy that the environment names.
    async with probe_session(trust_env=True) as http:
        status, body, clock_ahead = await get_json(http, config.base_url, f"/bot{token}/getMe")
    if status in _REFUSALS and "ok" in body:
        raise BotTokenRefused("Telegram does not know it. Copy it again from @BotFather, all of it.")
    if status != 200 or not isinstance(body.get("result"), dict):
        raise unexpected(config.base_url, status, "platforms.telegram.base_url")
    username = str(body["result"].get("username", ""))
    return BotAccount(f"@{username}", f"https://t.me/{username}", clock_ahead=clock_ahead)


def check(platform: str, config: TelegramBotConfig, home: Path) -> Iterator[Finding]:
    """Check that the port of the webhook is free."""
    webhook = config.webhook
    if not webhook.url:
        return
    where = f"{webhook.host}:{webhook.port}"
    error = listen_error(webhook.host, webhook.port)
    in_use = error is not None and error.errno == errno.EADDRINUSE
    if error is None:
        yield Finding("ok", f"{platform}: {where} is free for the webhook")
    elif in_use and is_running(home):
        yield Finding("ok", f"{platform}: {where} is in use, and Hermes is running")
    else:
        why = "it is in use by another program" if in_use else error.strerror
        setting = f"{section_key(platform)}.webhook"
        yield Finding(
            "fail",
            f"{platform}: cannot listen on {where} for the webhook ({why}); set {setting}.host and port",
        )


def build(context: PlatformContext) -> Platform:
    from gateway.platforms.telegram.platform import TelegramPlatform  # noqa: PLC0415 - loads the SDK

    platform = TelegramPlatform(context.config, context.receiver, context.commands, bot_name=context.bot_name)
    context.on_config_change(platform.apply)
    return platform


TELEGRAM = PlatformSpec(
    "telegram",
    "Telegram",
    TelegramConfig,
    build,
    probe=probe,
    guide=GUIDE,
    check=check,
    command_hyphen="_",  # Telegram links a command only up to its first hyphen: /undo-compress would send /undo
)
