"""Search in stored messages."""

from __future__ import annotations

from dataclasses import replace
from sqlite3 import Connection
from typing import TYPE_CHECKING

from .exact import all_words_search, phrase_search, regex_search
from .ranked import ranked_search
from .request import SearchRequest, SearchResult

if TYPE_CHECKING:
    from .embeddings import EmbeddingModel

_EXACT = {"phrase": phrase_search, "all": all_words_search, "regex": regex_search}


def search(
    connection: Connection, request: SearchRequest, model: EmbeddingModel | None = None
) -> SearchResult:
    """Search by words, and by meaning, too, if a model is given. Raises InvalidSearch."""
    if not request.conversations:
        return SearchResult([])
    if request.mode == "natural":
        found = ranked_search(connection, request, model=model)
    else:
        found = _EXACT[request.mode](connection, request)
    return replace(found, hits=[hit for hit in found.hits if hit.key not in request.without])
