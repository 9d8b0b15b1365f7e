"""The schema in words: what a key expects, for error messages, documentation and `hermes config show`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from gateway.config.document import Place
from gateway.config.schema import Config

JsonSchema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Key:
    """One setting."""

    name: str
    """With its sections: `platforms.web.port`."""
    expected: str
    default: Any
    description: str


@cache
def _root() -> JsonSchema:
    return Config.model_json_schema()


def keys() -> Iterator[Key]:
    """Every setting, in the order of the schema."""
    return _keys_of(_root(), "")


def sections() -> list[tuple[str, str]]:
    """The top-level sections and what each is about."""
    return [(name, _meant(schema)["description"]) for name, schema in _root()["properties"].items()]


def schema_at(place: Place) -> JsonSchema | None:
    """What the schema says about this place; None where it knows no such key."""
    schema: JsonSchema | None = _root()
    for step in place:
        if schema is None:
            return None
        schema = _child(schema, step)
    return schema


def is_secret(place: Place) -> bool:
    schema = schema_at(place)
    return schema is not None and schema.get("format") == "password"


def expected(schema: JsonSchema) -> str:
    """A noun phrase: `a whole number from 0 to 65535`."""
    if "pattern" in schema:
        return "an http or https URL without a password"
    if "enum" in schema:
        *others, last = (f"`{choice}`" for choice in schema["enum"])
        return f"{', '.join(others)} or {last}"
    match schema.get("type"):
        case "integer":
            return f"a whole number{_range(schema)}"
        case "number":
            return f"a number{_range(schema)}"
        case "boolean":
            return "`true` or `false`"
        case "array":
            return "a list"
        case "object":
            return "a mapping"
    return "text"


def nearest(place: Place) -> str | None:
    """The known key that was probably meant by an unknown one."""
    *parent, wrong = place
    siblings = _names(schema_at(tuple(parent)))
    if close := difflib.get_close_matches(str(wrong), siblings, n=1):
        return dotted((*parent, close[0]))
    # Where several keys end alike, the first is meant.
    by_last_name = {key.name.rpartition(".")[2]: key.name for key in reversed(list(keys()))}
    if close := difflib.get_close_matches(str(wrong), by_last_name, n=1, cutoff=0.8):
        return by_last_name[close[0]]
    return None


def dotted(place: Place) -> str:
    """`model.fallbacks[0].name`"""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".")


def _keys_of(schema: JsonSchema, prefix: str) -> Iterator[Key]:
    for name, field in schema["properties"].items():
        meant = _meant(field)
        if "properties" in meant:
            yield from _keys_of(meant, f"{prefix}{name}.")
        else:
            yield Key(f"{prefix}{name}", expected(meant), field.get("default"), field["description"])


def _meant(schema: JsonSchema) -> JsonSchema:
    """Behind references, and without the null of an optional value."""
    if "$ref" in schema:
        definition: JsonSchema = _root()["$defs"][schema["$ref"].rpartition("/")[2]]
        return definition
    for choice in schema.get("anyOf", ()):
        if choice.get("type") != "null":
            return _meant(choice)
    return schema


def _child(schema: JsonSchema, step: str | int) -> JsonSchema | None:
    if isinstance(step, int):
        child = schema.get("items")
    else:
        child = schema.get("properties", {}).get(step) or schema.get("additionalProperties")
    # `true` where anything may stand.
    return _meant(child) if child and child is not True else None


def _names(schema: JsonSchema | None) -> Sequence[str]:
    return list(schema.get("properties", ())) if schema else []


def _range(schema: JsonSchema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if high is not None:
        return f" from {low} to {high}"
    return f" of at least {low}" if low is not None else ""
