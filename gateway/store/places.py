"""Places as they stand in a column."""

from __future__ import annotations

from pydantic import TypeAdapter

from gateway.chat.contract import Place

_PLACE = TypeAdapter(Place)


def place_from(column: str) -> Place:
    """Raises ValueError for what is no place."""
    return _PLACE.validate_json(column)
