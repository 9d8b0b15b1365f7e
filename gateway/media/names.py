"""File names as strangers write them, made harmless."""

from __future__ import annotations

import mimetypes
import re
import unicodedata

_LONGEST = 80
_FALLBACK = "file"


def safe_name(name: str, mime: str = "") -> str:
    """Only the last part of a path, printable, not hidden, not too long; with an ending if the type tells one."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    printable = "".join(char for char in last if unicodedata.category(char)[0] not in "CZ" or char == " ")
    plain = re.sub(r"[\[\]`<>:\"|｜?*]", "_", printable).strip(" .")
    stem, dot, ending = plain.rpartition(".")
    if not dot:
        stem, ending = plain, (mimetypes.guess_extension(mime) or "").lstrip(".")
    stem = stem[: _LONGEST - 12] or _FALLBACK
    return f"{stem}.{ending[:10]}" if ending else stem
