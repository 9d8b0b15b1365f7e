"""Telegram, on python-telegram-bot. Importing this package does not import the SDK."""
