"""Finding what was said: `search` for a request, `strong_matches` for what comes to mind by itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .exact import all_words, matching, phrase
from .ranked import natural, strong_matches
from .request import MODES, BadRequest, Found, Hit, Mode, Request

if TYPE_CHECKING:
    from .embeddings import Model

__all__ = ["MODES", "BadRequest", "Found", "Hit", "Mode", "Request", "search", "strong_matches"]

_EXACT = {"phrase": phrase, "all": all_words, "regex": matching}


def search(
    connection: sqlite3.Connection,
    conversations: Sequence[int],
    request: Request,
    model: Model | None = None,
) -> Found:
    """In these conversations, which the caller may see; a question also by its meaning, if there is a model for it.
    Raises BadRequest."""
    if not conversations:
        return Found([])
    if request.mode == "natural":
        found = natural(connection, conversations, request, model=model)
    else:
        found = _EXACT[request.mode](connection, conversations, request)
    return replace(found, hits=[hit for hit in found.hits if hit.key not in request.without])
