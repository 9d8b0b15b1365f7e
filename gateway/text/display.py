"""Text from a model, made fit for a line or a code block that a person has to rely on."""

from __future__ import annotations

import json
import re
import unicodedata

from gateway.text.unicode import code_of, written_out


def counted(number: int, thing: str) -> str:
    """`1 message`, `2,000 messages`."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


_BACKTICKS = re.compile(r"`{3,}")


def one_line(text: str, limit: int) -> str:
    flat = " ".join(unmasked(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def unmasked(text: str) -> str:
    """Characters that hide or reorder others are written out."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_seen, text.replace("\r\n", "\n")))


def brief(arguments: str) -> str:
    """The value where there is one, names and values where there are more; as it is where it is no JSON object."""
    given = _fields(arguments)
    if given is None:
        return arguments
    if len(given) == 1:
        return next(iter(given.values()))
    return " ".join(f"{key}={value}" for key, value in given.items())


def in_full(arguments: str) -> str:
    """Everything, readable and exactly: the only value as it is, several as JSON on lines of their own."""
    given = _fields(arguments)
    if given is None:
        return written_out(arguments)
    if len(given) == 1:
        return written_out(next(iter(given.values())))
    return written_out(json.dumps(json.loads(arguments), ensure_ascii=False, indent=1))


def code(text: str) -> str:
    """Short, on one line, and nothing in it is taken for Markdown."""
    line = one_line(text, 80).replace("`", "'")
    return f"`{line}`"


def code_block(code: str) -> str:
    """Whatever the code holds cannot end the block."""
    ticks = max(("`" * 3, *(run + "`" for run in _BACKTICKS.findall(code))), key=len)
    return f"{ticks}\n{code}\n{ticks}"


def _fields(arguments: str) -> dict[str, str] | None:
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, dict):
        return None
    return {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in given.items()
    }


def _seen(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
        return character
    return code_of(character)
