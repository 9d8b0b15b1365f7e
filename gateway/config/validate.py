"""Validates a document and describes the schema in words, for error messages and documentation."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gateway.config.fields import Reload
from gateway.config.schema import Config
from gateway.config.yaml_document import Document, KeyPath, Problem

JsonSchema = dict[str, Any]

_TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "`true` or `false`",
    "array": "a list",
    "object": "a mapping",
}


@dataclass(frozen=True, slots=True)
class Key:
    """One setting."""

    name: str
    """The full key: `platforms.web.port`."""
    expected: str
    default: Any
    description: str
    reload: Reload


@lru_cache(maxsize=4)
def _root(of: type[Config] = Config) -> JsonSchema:
    """Return the JSON schema of a configuration model, with every reference replaced by its definition."""
    schema = of.model_json_schema()
    inlined: JsonSchema = _inline(schema, schema.get("$defs", {}))
    return inlined


def _inline(schema: Any, definitions: JsonSchema) -> Any:
    if isinstance(schema, list):
        return [_inline(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        schema = {**definitions[schema["$ref"].rpartition("/")[2]], **schema}
    return {
        name: _inline(inner, definitions) for name, inner in schema.items() if name not in ("$ref", "$defs")
    }


def keys() -> Iterator[Key]:
    """Yield every setting in the order of the schema."""
    return _keys_of(_root(), "")


def sections() -> list[tuple[str, str]]:
    """Return the top-level sections with their descriptions."""
    return [(name, _resolve(schema)["description"]) for name, schema in _root()["properties"].items()]


def schema_at(path: KeyPath, of: type[Config] = Config) -> JsonSchema:
    """Return the schema of this key; empty if there is no such key."""
    schema = _root(of)
    for step in path:
        schema = _child(schema, step)
    return schema


def describe_type(schema: JsonSchema) -> str:
    """Describe the accepted values: `a whole number from 0 to 65535`."""
    if "pattern" in schema:
        return "an http or https URL without a password"
    if "enum" in schema:
        *others, last = (f"`{choice}`" for choice in schema["enum"])
        return f"{', '.join(others)} or {last}"
    kind = _TYPES.get(schema.get("type", ""), "text")
    return f"{kind}{_range(schema)}" if "number" in kind else kind


def closest_key(path: KeyPath, of: type[Config] = Config) -> str | None:
    """Return the known key that is closest to an unknown one."""
    *parent, wrong = path
    siblings = schema_at(tuple(parent), of).get("properties", ())
    if close := difflib.get_close_matches(str(wrong), siblings, n=1):
        return dotted((*parent, close[0]))
    # If several keys have the same last name, the first one wins.
    by_last_name = {key.name.rpartition(".")[2]: key.name for key in reversed(list(keys()))}
    if close := difflib.get_close_matches(str(wrong), by_last_name, n=1, cutoff=0.8):
        return by_last_name[close[0]]
    return None


def dotted(path: KeyPath) -> str:
    """Format a path: `model.fallbacks[0].name`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def _keys_of(schema: JsonSchema, prefix: str) -> Iterator[Key]:
    for name, field in schema["properties"].items():
        meant = _resolve(field)
        if "properties" in meant:
            yield from _keys_of(meant, f"{prefix}{name}.")
        else:
            yield Key(
                f"{prefix}{name}",
                describe_type(meant),
                field.get("default"),
                field["description"],
                field.get("reload", "restart"),
            )


def _resolve(schema: JsonSchema) -> JsonSchema:
    """Return the schema of an optional value without its null."""
    for choice in schema.get("anyOf", ()):
        if choice.get("type") != "null":
            return _resolve(choice)
    return schema


def _child(schema: JsonSchema, step: str | int) -> JsonSchema:
    if isinstance(step, int):
        child = schema.get("items")
    else:
        child = schema.get("properties", {}).get(step) or schema.get("additionalProperties")
    # `true` means that any value is accepted.
    return _resolve(child) if child and child is not True else {}


def _range(schema: JsonSchema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if high is not None:
        return f" from {low} to {high}"
    return f" of at least {low}" if low is not None else ""


MAX_SHOWN = 24
"""Characters. Messages do not repeat longer text, because it may be a misplaced key."""


def validate(document: Document, of: type[Config] = Config) -> Config | None:
    """Return the configuration, or None and the problems in the document."""
    if not isinstance(document.tree, dict):
        document.add_problem((), f"expected a mapping of keys, found {_kind(document.tree)}")
        return None
    try:
        config = of.model_validate(document.tree)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            path = details["loc"]
            if not any(path[: len(unreadable)] == unreadable for unreadable in document.unreadable):
                document.add_problem(path, _sentence(details, document, of))
        return None
    return None if document.problems else config


def problem_lines(document: Document, file: str) -> list[str]:
    """Format the problems in the order of the file: `hermes.yaml:12: model.nmae: unknown key; did you mean ...?`"""
    ordered = sorted(document.problems, key=lambda problem: problem.line)
    return [f"{file}:{problem.line}: {_named(problem)}" for problem in ordered]


def _named(problem: Problem) -> str:
    end = "" if problem.text.endswith("?") else "."
    return f"{dotted(problem.path)}: {problem.text}{end}" if problem.path else f"{problem.text}{end}"


def _sentence(details: ErrorDetails, document: Document, of: type[Config]) -> str:
    path, value = details["loc"], details["input"]
    match details["type"]:
        case "extra_forbidden":
            near = closest_key(path, of)
            return f"unknown key; did you mean {near}?" if near else "unknown key"
        case "missing":
            return "is required"
        case "value_error":
            return str(details["ctx"]["error"])
    wanted = describe_type(schema_at(path, of))
    hint = "; put it in quotes" if wanted == "text" and isinstance(value, int | float | date) else ""
    return f"expected {wanted}, found {_describe_value(value, path, document, of)}{hint}"


def _describe_value(value: Any, path: KeyPath, document: Document, of: type[Config]) -> str:
    """Describe a value without revealing a secret."""
    if names := document.variables.get(path):
        return f"the value of {' and '.join(names)}"
    is_secret = schema_at(path, of).get("format") == "password"
    if is_secret or (isinstance(value, str) and (len(value) > MAX_SHOWN or "@" in value)):
        return f"{_kind(value)} (not shown)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return repr(value)
    return _kind(value)


def _kind(value: Any) -> str:
    return next((name for types, name in _KINDS if isinstance(value, types)), "something else")


_KINDS: tuple[tuple[Any, str], ...] = (
    (type(None), "nothing"),
    (bool, "true or false"),
    (int | float, "a number"),
    (str, "text"),
    (list, "a list"),
    (dict, "a mapping"),
    (date, "a date"),
)
