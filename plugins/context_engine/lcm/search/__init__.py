"""Finding what was said: `search` for a request, `strong_matches` for what comes to mind by itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace

from .exact import all_words, phrase
from .natural import natural
from .patterns import matching
from .request import MODES, BadRequest, Found, Hit, Mode, Request
from .strength import strong_matches

__all__ = ["MODES", "BadRequest", "Found", "Hit", "Mode", "Request", "search", "strong_matches"]

_SEARCHES = {"natural": natural, "phrase": phrase, "all": all_words, "regex": matching}


def search(connection: sqlite3.Connection, conversations: Sequence[int], request: Request) -> Found:
    """In these conversations, which the caller may see. Raises BadRequest."""
    if not conversations:
        return Found([])
    found = _SEARCHES[request.mode](connection, conversations, request)
    return replace(found, hits=[hit for hit in found.hits if hit.key not in request.without])
