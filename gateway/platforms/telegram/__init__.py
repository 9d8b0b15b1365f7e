"""Telegram, on python-telegram-bot."""

from gateway.platforms.telegram.platform import TelegramPlatform

__all__ = ["TelegramPlatform"]
