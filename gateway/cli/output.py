"""Output of commands: coloured, wrapped and with progress bars at a terminal, plain in a pipe."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from gateway.progress import listening

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from agent.events import FileSent

_PIPE_WIDTH = 100_000
"""Columns of a pipe: lines are never wrapped."""

as_json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def console(*, stderr: bool = False) -> Console:
    """Return a console that colours and wraps only at a terminal."""
    from rich.console import Console  # noqa: PLC0415 - slow to import, and not every command needs it

    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = _PIPE_WIDTH
    return made


def say(text: str) -> None:
    console().print(text, soft_wrap=True)


def printable(text: str) -> str:
    """Make control characters visible, so that text of a model or a file cannot control the terminal."""
    return text.replace("\r\n", "\n").translate(_CONTROLS)


def one_line(text: str, limit: int) -> str:
    """Put the text on one line and truncate it."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def describe_call(name: str, arguments: str) -> str:
    """Describe a tool call in short, as in `read_file notes.txt`."""
    from agent.redaction import own_rules, redact  # noqa: PLC0415 - slow to import
    from gateway.text.display import summarize_arguments  # noqa: PLC0415

    return f"{one_line(name, 40)} {one_line(redact(summarize_arguments(arguments), own_rules()), 60)}".strip()


def describe_file(sent: FileSent) -> str:
    """Put the path on its own line, so that it can be copied."""
    return f"⇩ {one_line(sent.caption or sent.name, 200)}\n{printable(f'{sent.workspace}/{sent.path}')}"


def local_time(timestamp: float) -> str:
    return datetime.fromtimestamp(timestamp).astimezone().strftime("%Y-%m-%d %H:%M")


def print_rows(out: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table that fits the terminal; in a pipe, values separated by tabs, without headings."""
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
    """Write a private file that appears only when it is complete. Replaces a file only with `overwrite`."""
    if path.exists() and not path.is_file():  # root could replace even /dev/stdout
        raise click.ClickException(f"{path} is not a file; without -o the output goes to standard output.")
    if path.exists() and not overwrite:
        raise click.ClickException(f"{path} exists; --force overwrites it.")
    draft = path.with_name(f".{path.name}.part")
    try:
        draft.unlink(missing_ok=True)
        # O_EXCL: do not follow a link that another user may have put there.
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


@contextmanager
def show_progress() -> Iterator[None]:
    """Show the progress reported inside the `with` block; nothing in a pipe."""
    out = console(stderr=True)
    if not out.is_terminal:
        yield
        return
    bar = _ProgressBar(out)
    with listening(bar):
        try:
            yield
        finally:
            bar.close()


class _ProgressBar:
    """Shows one piece of work at a time. Thread-safe."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._shown: tuple[str, Progress] | None = None
        self._lock = threading.Lock()

    def __call__(self, what: str, done: int, total: int) -> None:
        from rich.progress import Progress  # noqa: PLC0415 - slow to import

        with self._lock:
            is_done = 0 < total <= done
            if is_done or (self._shown and self._shown[0] != what):
                self._remove()
            if is_done:
                return
            if self._shown is None:
                self._shown = (what, Progress(console=self._out, transient=True))
                self._shown[1].add_task(what)
                self._shown[1].start()
            _, bar = self._shown
            bar.update(bar.task_ids[0], completed=done, total=total or None)

    def close(self) -> None:
        with self._lock:
            self._remove()

    def _remove(self) -> None:
        if self._shown is not None:
            self._shown[1].stop()
            self._shown = None
