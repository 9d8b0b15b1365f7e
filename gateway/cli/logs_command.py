"""`hermes logs`: what the gateway has logged, for people."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from gateway.cli import Options, looked_up
from gateway.cli.output import console, printable
from gateway.cli.store_access import begins

if TYPE_CHECKING:
    from rich.console import Console

Event = dict[str, Any]

_LEVELS = ("debug", "info", "warning", "error", "critical")
_STYLES = {"debug": "dim", "info": "green", "warning": "yellow", "error": "bold red", "critical": "bold red"}
_LOOK_AGAIN_SECONDS = 0.3
_SHOWN_FIRST = ("timestamp", "level", "event", "logger", "exception", "stack")


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on with what is logged from now on, until Ctrl-C.")
@click.option(
    "-n", "--lines", type=click.IntRange(min=0), default=50, show_default=True, help="So many, the newest."
)
@click.option(
    "--level", type=click.Choice(_LEVELS[:-1]), default="debug", help="Only these and what is worse."
)
@click.option(
    "--conversation", "wanted", metavar="ID", help="Only about this one; the beginning of its id will do."
)
@click.option("--json", "as_json", is_flag=True, help="Print the lines as they are kept, as JSON.")
@click.pass_obj
def logs(options: Options, follow: bool, lines: int, level: str, wanted: str | None, as_json: bool) -> None:
    """Read what `hermes run` has logged, the newest last.

    It is kept in `logs/hermes.log` in the state directory, in five files of 2 MB, unless `logging.file` is off. What is
    not logged at all is set by `logging.level`.
    """
    from gateway.observability.log_file import all_files, log_file  # noqa: PLC0415 - not for `--help`

    loaded = looked_up(options)
    path = log_file(loaded.home)
    if not all_files(path):
        click.echo(_nothing_yet(path, is_on=loaded.config.logging.file), err=True)
        if not follow:
            return
    out = console()
    with closing(Reader(level, wanted)) as reader:
        for event in reader.last(path, lines):
            _show(event, out, as_json=as_json)
        for event in reader.coming(path) if follow else ():
            _show(event, out, as_json=as_json)


def _nothing_yet(path: Path, *, is_on: bool) -> str:
    if not is_on:
        return "No log is kept, because `logging.file` is off; Hermes logs to standard error only."
    return f"Nothing was logged yet: `hermes run` writes {path}."


class Reader:
    def __init__(self, level: str, wanted: str | None) -> None:
        self._least = _LEVELS.index(level)
        self._wanted = wanted
        self._file: IO[str] | None = None
        """Where `last` has come to the end, and `coming` goes on."""
        self._half = ""
        """Of a line at its end that is being written."""

    def last(self, path: Path, count: int) -> Iterator[Event]:
        from gateway.observability.log_file import all_files  # noqa: PLC0415

        newest: deque[Event] = deque(maxlen=count)
        for each in all_files(path):
            self._open(each)
            newest.extend(self._events())
            if each != path:
                self.close()
        yield from newest

    def coming(self, path: Path) -> Iterator[Event]:
        """Without an end, also when the file is full and another one begins."""
        while True:
            if self._file is None and path.exists():
                self._open(path)
            if self._file is not None:
                yield from self._events()
                if _is_another(path, self._file):
                    yield from self._events()  # what was written just before
                    self.close()
                    continue
            time.sleep(_LOOK_AGAIN_SECONDS)

    def _open(self, path: Path) -> None:
        self._file = path.open(encoding="utf-8", errors="replace")
        self._half = ""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _events(self) -> Iterator[Event]:
        from gateway.observability.log_file import parsed  # noqa: PLC0415

        return filter(self._is_wanted, parsed(self._lines()))

    def _lines(self) -> Iterator[str]:
        """Whole ones."""
        while self._file is not None and (piece := self._file.readline()):
            self._half += piece
            if piece.endswith("\n"):
                line, self._half = self._half, ""
                yield line

    def _is_wanted(self, event: Event) -> bool:
        level = event.get("level", "info")
        if level in _LEVELS and _LEVELS.index(level) < self._least:
            return False
        about = str(event.get("conversation") or event.get("conversation_id") or "")
        return self._wanted is None or (bool(about) and begins(about, self._wanted))


def _is_another(path: Path, file: IO[str]) -> bool:
    try:
        return path.stat().st_ino != os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return True


def _show(event: Event, out: Console, *, as_json: bool) -> None:
    from rich.text import Text  # noqa: PLC0415

    if as_json:
        click.echo(json.dumps(event, ensure_ascii=False))
        return
    level = str(event.get("level", "info"))
    line = Text.assemble(
        (_local(str(event.get("timestamp", ""))), "dim"),
        (f" {printable(level):<8}", _STYLES.get(level, "")),
        (f" {_flat(event.get('event', ''))}", "bold"),
    )
    for name, value in event.items():
        if name not in _SHOWN_FIRST:
            line.append(f" {_flat(name)}=", "cyan")
            line.append(_flat(value))
    out.print(line, soft_wrap=True)
    for trace in ("exception", "stack"):
        if trace in event:
            out.print(Text(_indented(event[trace]), "dim"), soft_wrap=True)


def _local(timestamp: str) -> str:
    try:
        return f"{datetime.fromisoformat(timestamp).astimezone():%Y-%m-%d %H:%M:%S}"
    except ValueError:
        return printable(timestamp)


def _flat(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return printable(text).replace("\n", "\\n")


def _indented(trace: object) -> str:
    """Text as it was formatted; of the structure that JSON logs have, what was raised."""
    if isinstance(trace, list):
        raised = [each for each in trace if isinstance(each, dict)]
        trace = "\n".join(f"{each.get('exc_type')}: {each.get('exc_value')}" for each in raised)
    return "\n".join(f"    {line}" for line in printable(str(trace)).splitlines())
