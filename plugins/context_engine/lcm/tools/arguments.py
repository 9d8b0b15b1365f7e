"""Arguments as a model writes them, held to the schema of the tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agent.messages import ChatDict
from agent.tool import did_you_mean

from .context import Refused

_SHOWN = 60
_WORDS = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_MISFIT = object()


def checked(schema: ChatDict, given: Mapping[str, Any]) -> dict[str, Any]:
    """With the types of the schema. Raises Refused."""
    if not isinstance(given, Mapping):
        raise Refused(f"`{schema['name']}` takes its arguments as one JSON object.")
    known: ChatDict = schema["parameters"].get("properties", {})
    fitting = {}
    for name, value in given.items():
        if name not in known:
            raise Refused(
                f"`{schema['name']}` has no parameter `{str(name)[:_SHOWN]}`. {did_you_mean(str(name), known)}"
            )
        if value is not None:  # models write null where they mean "not given"
            fitting[name] = _fitted(name, value, known[name])
    for name in schema["parameters"].get("required", ()):
        if fitting.get(name) in (None, ""):
            raise Refused(f"`{schema['name']}` needs `{name}`: {known[name].get('description', '')}".strip())
    return fitting


def _fitted(name: str, value: Any, schema: ChatDict) -> Any:
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    fitted = next((found for kind in kinds if (found := _as(kind, value)) is not _MISFIT), _MISFIT)
    if not kinds:
        fitted = value
    if fitted is _MISFIT:
        wanted = " or ".join(_WORDS.get(kind, kind) for kind in kinds)
        raise Refused(f"`{name}` must be {wanted}, not {_shown(value)}.")
    if "enum" in schema and fitted not in schema["enum"]:
        raise Refused(
            f"`{name}` cannot be {_shown(value)}. {did_you_mean(str(value), map(str, schema['enum']))}"
        )
    least = schema.get("minimum")
    if least is not None and isinstance(fitted, int | float) and fitted < least:
        raise Refused(f"`{name}` must be {least} or more, not {_shown(value)}.")
    if isinstance(fitted, list):
        return [_fitted(name, each, schema.get("items", {})) for each in fitted]
    return fitted


def _as(kind: str, value: Any) -> Any:
    return _READERS[kind](value) if kind in _READERS else value


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else _MISFIT


def _whole_number(value: Any) -> Any:
    """`3`, `3.0` and `"3"` mean the same to whoever writes them."""
    if isinstance(value, bool):
        return _MISFIT
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 20:
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    return value if isinstance(value, int) else _MISFIT


def _number(value: Any) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else _MISFIT


def _truth(value: Any) -> Any:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower(), _MISFIT)
    return value if isinstance(value, bool) else _MISFIT


def _list(value: Any) -> Any:
    """One thing alone is a list of one."""
    return value if isinstance(value, list) else [value] if isinstance(value, str) else _MISFIT


_READERS: dict[str, Callable[[Any], Any]] = {
    "string": _text,
    "integer": _whole_number,
    "number": _number,
    "boolean": _truth,
    "array": _list,
}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
