"""Discord, on discord.py."""

from __future__ import annotations

from gateway.platforms.discord.platform import DiscordPlatform

__all__ = ["DiscordPlatform"]
