"""What commands print: for a person at a terminal, or plain and unwrapped for a pipe."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

_UNBOUNDED = 100_000
"""Columns of something that is not a terminal."""

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def console(*, stderr: bool = False) -> Console:
    """Colours and wrapping only where a person looks."""
    from rich.console import Console  # noqa: PLC0415 - commands that print one sentence do without it

    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = _UNBOUNDED
    return made


def printable(text: str) -> str:
    """Control characters made visible: text from a model or a file must not steer the terminal."""
    return text.replace("\r\n", "\n").translate(_CONTROLS)


def one_line(text: str, limit: int) -> str:
    """The text on one line, shortened."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def describe_call(name: str, arguments: str) -> str:
    """A tool call as a person would say it: `read_file notes.txt`."""
    from agent.redaction import own_rules, redact  # noqa: PLC0415 - most commands show no calls

    return f"{one_line(name, 40)} {one_line(redact(_brief(arguments), own_rules()), 60)}".strip()


def _brief(arguments: str) -> str:
    """The value where there is one, names and values where there are more; raw where it is no JSON object."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(given, dict):
        return arguments
    texts = [
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in given.values()
    ]
    if len(texts) == 1:
        return texts[0]
    return " ".join(f"{key}={text}" for key, text in zip(given, texts, strict=True))


def local_time(timestamp: float) -> str:
    return datetime.fromtimestamp(timestamp).astimezone().strftime("%Y-%m-%d %H:%M")


def print_rows(out: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table for a person, cut to the window; for a pipe, tabs between the values and no headings."""
    if not out.is_terminal:
        for row in rows:
            click.echo("\t".join(row))
        return
    from rich.text import Text  # noqa: PLC0415

    widths = [*(max(len(row[at]) for row in [columns, *rows]) for at in range(len(columns) - 1)), 0]
    for number, row in enumerate([columns, *rows]):
        cells = zip(row, widths, strict=True)
        aligned = [cell.rjust(width) if cell.isdigit() else cell.ljust(width) for cell, width in cells]
        line = Text("  ".join(aligned).rstrip(), "bold" if number == 0 else "")
        line.truncate(out.width, overflow="ellipsis")
        out.print(line)


@contextmanager
def new_private_file(path: Path, *, overwrite: bool) -> Iterator[IO[str]]:
    """For the owner's eyes only, and there only once it is complete. Refuses to replace a file unless told to."""
    if path.exists() and not path.is_file():  # root could replace even /dev/stdout
        raise click.ClickException(f"{path} is no file; without -o it goes to standard output.")
    if path.exists() and not overwrite:
        raise click.ClickException(f"{path} exists; --force overwrites it.")
    draft = path.with_name(f".{path.name}.part")
    try:
        draft.unlink(missing_ok=True)
        # Made anew: a link that somebody else put there would be followed.
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            yield file
        draft.replace(path)
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror}.") from error
    finally:
        draft.unlink(missing_ok=True)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))
