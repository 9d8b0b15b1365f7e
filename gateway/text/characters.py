"""What is one character to a reader, and what is none at all."""

from __future__ import annotations

import unicodedata

_ZERO_WIDTH = "\u00ad\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff"
_DIRECTION = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_SPACES = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())

UNSEEN = _SPACES + _ZERO_WIDTH + _DIRECTION
"""Characters that show nothing by themselves; a message of nothing else is refused as empty."""

_JOINER = "\u200d"


def is_blank(text: str) -> bool:
    """Whether a reader would see nothing."""
    return not text.strip(UNSEEN)


def whole_characters(text: str) -> str:
    """A stream may be cut in the middle of an emoji; half of one cannot be sent, and � stands in its place."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def belong_together(text: str, position: int) -> bool:
    """Whether a cut here would tear what a reader takes for one character (the common cases, cheaply)."""
    if not 0 < position < len(text):
        return False
    before, after = text[position - 1], text[position]
    if before < "\u0300" and after < "\u0300":
        return before == "\r" and after == "\n"
    if _is_flag_half(before) and _is_flag_half(after):
        return _flag_halves_before(text, position) % 2 == 1
    if before == _JOINER:
        return not after.isspace()
    return _extends(after) or _is_surrogate_pair(before, after) or _is_syllable_part(before, after)


def _extends(character: str) -> bool:
    """Combining marks, variation selectors, joiners, skin tones and the tags of regional flags."""
    if unicodedata.category(character)[0] == "M" or character in "\u200c\u200d":
        return True
    return "\U0001f3fb" <= character <= "\U0001f3ff" or "\U000e0020" <= character <= "\U000e007f"


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flag_halves_before(text: str, position: int) -> int:
    begin = position
    while begin > 0 and _is_flag_half(text[begin - 1]):
        begin -= 1
    return position - begin


def _is_surrogate_pair(before: str, after: str) -> bool:
    return "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff"


def _is_syllable_part(before: str, after: str) -> bool:
    """Korean written letter by letter."""
    return "\u1160" <= after <= "\u11ff" and (
        "\u1100" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3"
    )
