"""The bots in the configuration, by the names under which people and approvals know them."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.config.platforms import DiscordBotConfig, PlatformsConfig, TelegramBotConfig

Bot = TelegramBotConfig | DiscordBotConfig


def bots(platforms: PlatformsConfig) -> Iterator[tuple[str, Bot]]:
    """`telegram`, `telegram/work`, `discord`, ...; also those that are switched off."""
    yield "telegram", platforms.telegram
    for name, telegram in platforms.telegram.bots.items():
        yield f"telegram/{name}", telegram
    yield "discord", platforms.discord
    for name, discord in platforms.discord.bots.items():
        yield f"discord/{name}", discord
