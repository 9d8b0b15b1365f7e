"""What the tokens of bots look like."""

from __future__ import annotations

import re

_TELEGRAM_TOKEN = re.compile(r"[0-9]+:[A-Za-z0-9_-]+")
_ONE_WORD = re.compile(r"[!-~]+")


def token_problem(platform: str, token: str) -> str:
    """What is wrong with it at first sight, if anything."""
    if platform == "telegram" and not _TELEGRAM_TOKEN.fullmatch(token):
        return "expected a token as BotFather gives it, such as 123456789:AAF-x2b…"
    if not _ONE_WORD.fullmatch(token):
        return "expected a token without spaces or line breaks"
    return ""
