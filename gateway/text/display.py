"""Formats text from a model for one line or one code block that a person must be able to trust."""

from __future__ import annotations

import json
import re
import unicodedata

from gateway.text.unicode import HIDDEN_CATEGORIES, escape_character, escape_confusables

_BACKTICKS = re.compile(r"`{3,}")


def pluralize(number: int, thing: str) -> str:
    """Format a count: `1 message`, `2,000 messages`."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def one_line(text: str, limit: int) -> str:
    flat = " ".join(escape_hidden(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def escape_hidden(text: str) -> str:
    """Escape characters that are invisible or reorder others."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        escape_character(character)
        if character not in "\n\t" and unicodedata.category(character) in HIDDEN_CATEGORIES
        else character
        for character in text.replace("\r\n", "\n")
    )


def summarize_arguments(arguments: str) -> str:
    """Format the JSON arguments of a tool call briefly: a single value alone, several as `name=value`."""
    fields = _parse_fields(arguments)
    if fields is None:
        return arguments
    if len(fields) == 1:
        return next(iter(fields.values()))
    return " ".join(f"{key}={value}" for key, value in fields.items())


def format_arguments(arguments: str) -> str:
    """Format the JSON arguments of a tool call completely: a single value alone, several as indented JSON."""
    fields = _parse_fields(arguments)
    if fields is None:
        return escape_confusables(arguments)
    if len(fields) == 1:
        return escape_confusables(next(iter(fields.values())))
    return escape_confusables(json.dumps(json.loads(arguments), ensure_ascii=False, indent=1))


def inline_code(text: str) -> str:
    """Format text as inline code, on one line of at most 80 characters; backticks become apostrophes."""
    line = one_line(text, 80).replace("`", "'")
    return f"`{line}`"


def code_block(code: str) -> str:
    """Put code between fences that are longer than any fence in it."""
    fence = max(("`" * 3, *(run + "`" for run in _BACKTICKS.findall(code))), key=len)
    return f"{fence}\n{code}\n{fence}"


def _parse_fields(arguments: str) -> dict[str, str] | None:
    """Return the fields as text, or None if the arguments are not a JSON object."""
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict):
        return None
    return {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in parsed.items()
    }
