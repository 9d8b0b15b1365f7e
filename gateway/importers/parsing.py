"""Validates values from files of other programs."""

from __future__ import annotations

import json
import math
from datetime import datetime
from pathlib import Path
from typing import Any

from gateway.errors import ImportRefused
from gateway.progress import open_with_progress

_LARGEST = 1_000_000_000
"""The maximum size of a JSON file, which is read as a whole."""
_LATEST = 32_503_680_000
"""The latest accepted time, in the year 3000."""


def read_json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LARGEST:
            raise ImportRefused(f"it is larger than {_LARGEST // 1_000_000} MB; export a part of the chat.")
        with open_with_progress(path, "Reading the file") as file:
            read = json.loads(content := file.read())
    except json.JSONDecodeError as error:
        raise ImportRefused(_no_json(content, error)) from error
    except (ValueError, RecursionError) as error:
        raise ImportRefused("it is neither JSON nor a database.") from error
    if not isinstance(read, dict):
        raise ImportRefused("it is JSON, but not an export of Telegram Desktop or DiscordChatExporter.")
    return read


def _no_json(content: str | bytes, error: json.JSONDecodeError) -> str:
    if not content.strip():
        return "the file is empty."
    if content.lstrip()[:1] in ("{", "[", b"{", b"["):
        return (
            f"it is JSON that breaks off or has a mistake (line {error.lineno}); export the chat once more."
        )
    return "it is neither JSON nor a database."


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def moment(*values: Any) -> float:
    """Return the first value that is a time: seconds as a number or as digits, or ISO 8601."""
    for value in values:
        found = _seconds(value)
        if found is not None and math.isfinite(found) and 0 <= found < _LATEST:
            return found
    raise ImportRefused(f"a message in it has no time that could be true ({values[0]!r}).")


def _seconds(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    try:
        return datetime.fromisoformat(text(value)).timestamp()
    except (ValueError, OverflowError):
        return None
