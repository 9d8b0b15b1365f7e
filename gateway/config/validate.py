"""From a document to a `Config`, or to sentences about what is wrong with it."""

from __future__ import annotations

from datetime import date
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gateway.config.describe import dotted, expected, is_secret, nearest, schema_at
from gateway.config.document import Document, Place, Problem
from gateway.config.schema import Config

LONGEST_SHOWN = 24
"""Slips are short and keys in the wrong place are long: longer text is not repeated in a message."""


def validate(document: Document) -> Config | None:
    """None if there are problems; the document has them all."""
    if not isinstance(document.tree, dict):
        document.complain((), f"expected a mapping of keys, found {_kind(document.tree)}")
        return None
    try:
        config = Config.model_validate(document.tree)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            place = details["loc"]
            if not any(place[: len(unread)] == unread for unread in document.unread):
                document.complain(place, _sentence(details, document))
        return None
    return None if document.problems else config


def messages(document: Document, file: str) -> list[str]:
    """`hermes.yaml:12: model.nmae: unknown key; did you mean model.name?`, in the order of the file."""
    ordered = sorted(document.problems, key=lambda problem: problem.line)
    return [f"{file}:{problem.line}: {_named(problem)}" for problem in ordered]


def _named(problem: Problem) -> str:
    end = "" if problem.text.endswith("?") else "."
    return f"{dotted(problem.place)}: {problem.text}{end}" if problem.place else f"{problem.text}{end}"


def _sentence(details: ErrorDetails, document: Document) -> str:
    place, value = details["loc"], details["input"]
    match details["type"]:
        case "extra_forbidden":
            near = nearest(place)
            return f"unknown key; did you mean {near}?" if near else "unknown key"
        case "missing":
            return "is required"
        case "value_error":
            return str(details["ctx"]["error"])
    wanted = expected(schema_at(place) or {})
    hint = "; put it in quotes" if wanted == "text" and isinstance(value, int | float | date) else ""
    return f"expected {wanted}, found {_found(value, place, document)}{hint}"


def _found(value: Any, place: Place, document: Document) -> str:
    """The value, unless that could give away a secret."""
    if names := document.variables.get(place):
        return f"the value of {' and '.join(names)}"
    if is_secret(place) or (isinstance(value, str) and (len(value) > LONGEST_SHOWN or "@" in value)):
        return f"{_kind(value)} (not shown)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return repr(value)
    return _kind(value)


def _kind(value: Any) -> str:
    for types, name in _KINDS:
        if isinstance(value, types):
            return name
    return "something else"


_KINDS: tuple[tuple[Any, str], ...] = (
    (type(None), "nothing"),
    (bool, "true or false"),
    (int | float, "a number"),
    (str, "text"),
    (list, "a list"),
    (dict, "a mapping"),
    (date, "a date"),
)
