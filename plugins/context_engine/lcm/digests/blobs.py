"""Data that is no text: only its size is told, and what it is by its first bytes."""

from __future__ import annotations

import base64
import binascii
import re

from .room import Findings, Section
from .source import Source

_SAMPLE = 20_000
_SHORTEST = 200
_LONGEST_WORD_OF_TEXT = 60
_ENCODED = re.compile(r"[A-Za-z0-9+/_=\s-]+")
_DATA_ADDRESS = re.compile(r"\s*data:([\w.+-]{1,60}/[\w.+-]{1,60})?(?:;[\w=.-]{1,60}){0,4},")
_UNREADABLE = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f-\x9f\ufffd]")
_MOST_UNREADABLE = 0.05
_BEGINNINGS = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"RIFF", "a RIFF file (WebP, WAV or AVI)"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive, or an office document"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x7fELF", "a program for Linux"),
    (b"OggS", "Ogg audio"),
    (b"ID3", "MP3 audio"),
    (b"SQLite format 3", "an SQLite database"),
)


def read_blob(source: Source) -> Findings | None:
    sample = source.text[:_SAMPLE]
    address = _DATA_ADDRESS.match(sample)
    payload = sample[address.end() :] if address else sample
    if len(_UNREADABLE.findall(sample)) > len(sample) * _MOST_UNREADABLE:
        known = _known(sample.encode("latin-1", "replace"))
        return _findings("binary data", known or "characters that cannot be read")
    if address or _is_encoded(payload):
        known = _known(_decoded(payload)) or (address[1] if address else None)
        kind = "base64 data" if address or not (payload.islower() or payload.isupper()) else "data"
        return _findings(kind, known or "one long run of letters and digits without words")
    return None


def _findings(kind: str, what: str) -> Findings:
    return Findings(kind, "", [Section.flat("", [f"It looks like {what}; nothing of it is shown."])])


def _is_encoded(sample: str) -> bool:
    if len(sample) < _SHORTEST or not _ENCODED.fullmatch(sample):
        return False
    words = sample.split()
    # The last word of the sample, and of the data, may be short.
    return bool(words) and all(
        len(word) >= _LONGEST_WORD_OF_TEXT and "=" not in word.rstrip("=") for word in words[:-1] or words
    )


def _decoded(payload: str) -> bytes:
    try:
        return base64.b64decode(
            "".join(payload[:200].split())[:40], altchars=b"-_" if "_" in payload else None
        )
    except (binascii.Error, ValueError):
        return b""


def _known(data: bytes) -> str | None:
    return next((what for beginning, what in _BEGINNINGS if data.startswith(beginning)), None)
