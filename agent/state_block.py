"""The block at the end of a summary that the host writes and no engine sees."""

from __future__ import annotations

_BEGIN = "\n\n[STATE CARRIED OVER]\n"
_END = "\n[END OF STATE]"


def with_block(text: str, state: str) -> str:
    return f"{text}{_BEGIN}{state}{_END}"


def without_block(text: str) -> str:
    return text.partition(_BEGIN)[0] if text.endswith(_END) else text
