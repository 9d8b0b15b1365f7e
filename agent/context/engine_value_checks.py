"""Checks the values that an engine returns, and copies those that it gets.

A check returns plain types or raises. It runs in the engine's thread, because methods of the value may raise or hang.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, TypeVar, get_args

from agent.compression.outcome import CompressionOutcome, OutcomeKind
from agent.context_engine import ContextEngine
from agent.messages import ChatDict

T = TypeVar("T")

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_COMMON_STATUS = {
    *("engine", "last_prompt_tokens", "last_completion_tokens", "last_total_tokens", "threshold_tokens"),
    *("context_length", "usage_percent", "compression_count"),
}
_STATUS_LINES = 8
_STATUS_LENGTH = 100


def copied(value: T) -> T:
    """Return a deep copy of lists and dicts."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}  # type: ignore[return-value]
    if isinstance(value, list):
        return [copied(item) for item in value]  # type: ignore[return-value]
    return value


def plain(value: object) -> Any:
    """Return a copy made of JSON's types. Raises TypeError, ValueError or RecursionError if that is not possible."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    text.encode()  # lone surrogates can be neither stored nor sent
    return json.loads(text)


def as_nothing(value: object) -> None:
    """Ignore the result of a method that should return nothing."""


def as_engine(value: object) -> ContextEngine:
    if not isinstance(value, ContextEngine):
        raise TypeError("It is not a ContextEngine.")
    return value


def as_flag(value: object) -> bool:
    """Engines write `tokens and tokens > limit`, so None and numbers count as answers."""
    if value is not None and not isinstance(value, int):
        raise TypeError("It is not a bool.")
    return bool(value)


def as_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("It is not a str.")
    return str(plain(value))


def as_hint(value: object) -> str | None:
    return None if value is None else as_text(value)


def as_tokens(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError("It is not a number of tokens.")
    return round(value)


def as_outcome(value: object) -> CompressionOutcome | None:
    if value is None:
        return None
    if not isinstance(value, CompressionOutcome) or value.kind not in get_args(OutcomeKind):
        raise TypeError("It is not a CompressionOutcome.")
    return CompressionOutcome(value.kind, as_text(value.detail))


def as_schemas(value: object) -> list[ChatDict]:
    """Return tools with unique names that providers accept."""
    if not isinstance(value, list | tuple):
        raise TypeError("It is not a list.")
    schemas = [_schema(plain(schema)) for schema in value]
    if len({schema["name"] for schema in schemas}) != len(schemas):
        raise ValueError("Two tools have the same name.")
    return schemas


def as_status(value: object) -> dict[str, str]:
    """Return the engine's own values as short texts, without those that `/status` shows for every engine."""
    if not isinstance(value, dict):
        raise TypeError("It is not a dict.")
    own = {key: plain(item) for key, item in value.items() if key not in _COMMON_STATUS}
    shown = {as_text(key): item for key, item in own.items() if isinstance(item, str | int | float)}
    return {key: str(item)[:_STATUS_LENGTH] for key, item in list(shown.items())[:_STATUS_LINES]}


def _schema(schema: Any) -> ChatDict:
    if not isinstance(schema, dict) or not TOOL_NAME.fullmatch(as_text(schema.get("name"))):
        raise ValueError("A tool has no usable name.")
    parameters = schema.get("parameters") or {"type": "object", "properties": {}}
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise ValueError("The parameters of a tool are not the schema of an object.")
    return {
        "name": schema["name"],
        "description": as_text(schema.get("description") or ""),
        "parameters": parameters,
    }
