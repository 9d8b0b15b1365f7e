"""`hermes logs`: read and follow the log of the gateway."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from gateway.cli import Options, load_config
from gateway.cli.output import console, printable
from gateway.cli.store_access import begins

if TYPE_CHECKING:
    from rich.console import Console

Event = dict[str, Any]

_LEVELS = ("debug", "info", "warning", "error", "critical")
_STYLES = {"debug": "dim", "info": "green", "warning": "yellow", "error": "bold red", "critical": "bold red"}
_POLL_SECONDS = 0.3
_NOT_LISTED = ("timestamp", "level", "event", "logger", "exception", "stack")


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    help="Show this many of the newest lines.",
)
@click.option(
    "--level", type=click.Choice(_LEVELS[:-1]), default="debug", help="Show this level and more severe ones."
)
@click.option(
    "--conversation",
    "wanted",
    metavar="ID",
    help="Show lines about this conversation; the beginning of its id is enough.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the stored JSON lines.")
@click.pass_obj
def logs(options: Options, follow: bool, lines: int, level: str, wanted: str | None, as_json: bool) -> None:
    """Read the log of `hermes run`, newest lines last.

    The log is in `logs/hermes.log` in the state directory: at most five files of 2 MB, none if `logging.file` is off.
    `logging.level` sets which lines are written at all.
    """
    from gateway.observability.logs import all_files, log_file  # noqa: PLC0415 - not for `--help`

    loaded = load_config(options, lenient=True)
    path = log_file(loaded.home)
    if not all_files(path):
        missing = "There is no log file, because `logging.file` is off; Hermes logs to standard error only."
        if loaded.config.logging.file:
            missing = f"Nothing has been logged yet: `hermes run` writes {path}."
        click.echo(missing, err=True)
        if not follow:
            return
    out = console()
    with closing(LogReader(level, wanted)) as reader:
        for event in chain(reader.last(path, lines), reader.follow(path) if follow else ()):
            if as_json:
                click.echo(json.dumps(event, ensure_ascii=False))
            else:
                _print_event(event, out)


class LogReader:
    """Reads log files and selects events by level and conversation."""

    def __init__(self, level: str, wanted: str | None) -> None:
        self._min_level = _LEVELS.index(level)
        self._wanted = wanted
        self._file: IO[str] | None = None
        """The current log file: `last` reads it to its end and `follow` continues from there."""
        self._partial = ""
        """The beginning of a line that is still being written."""

    def last(self, path: Path, count: int) -> Iterator[Event]:
        from gateway.observability.logs import all_files  # noqa: PLC0415

        newest: deque[Event] = deque(maxlen=count)
        for each in all_files(path):
            self._open(each)
            newest.extend(self._events())
            if each != path:
                self.close()
        yield from newest

    def follow(self, path: Path) -> Iterator[Event]:
        """Yield new events without end, also after the file is rotated."""
        while True:
            if self._file is None and path.exists():
                self._open(path)
            if self._file is not None:
                yield from self._events()
                if _is_rotated(path, self._file):
                    yield from self._events()  # the lines written just before the rotation
                    self.close()
                    continue
            time.sleep(_POLL_SECONDS)

    def _open(self, path: Path) -> None:
        self._file = path.open(encoding="utf-8", errors="replace")
        self._partial = ""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _events(self) -> Iterator[Event]:
        from gateway.observability.logs import parse_events  # noqa: PLC0415

        return filter(self._is_wanted, parse_events(self._complete_lines()))

    def _complete_lines(self) -> Iterator[str]:
        while self._file is not None and (piece := self._file.readline()):
            self._partial += piece
            if piece.endswith("\n"):
                line, self._partial = self._partial, ""
                yield line

    def _is_wanted(self, event: Event) -> bool:
        level = event.get("level", "info")
        if level in _LEVELS and _LEVELS.index(level) < self._min_level:
            return False
        about = str(event.get("conversation") or event.get("conversation_id") or "")
        return self._wanted is None or (bool(about) and begins(about, self._wanted))


def _is_rotated(path: Path, file: IO[str]) -> bool:
    try:
        return path.stat().st_ino != os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return True


def _print_event(event: Event, out: Console) -> None:
    from rich.text import Text  # noqa: PLC0415

    level = str(event.get("level", "info"))
    line = Text.assemble(
        (_local_time(str(event.get("timestamp", ""))), "dim"),
        (f" {printable(level):<8}", _STYLES.get(level, "")),
        (f" {_flat(event.get('event', ''))}", "bold"),
    )
    for name, value in event.items():
        if name not in _NOT_LISTED:
            line.append(f" {_flat(name)}=", "cyan")
            line.append(_flat(value))
    out.print(line, soft_wrap=True)
    for trace in ("exception", "stack"):
        if trace in event:
            out.print(Text(_indented(event[trace]), "dim"), soft_wrap=True)


def _local_time(timestamp: str) -> str:
    try:
        return f"{datetime.fromisoformat(timestamp).astimezone():%Y-%m-%d %H:%M:%S}"
    except ValueError:
        return printable(timestamp)


def _flat(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return printable(text).replace("\n", "\\n")


def _indented(trace: object) -> str:
    """Indent a formatted traceback; of the structured traceback in a JSON log, list the exceptions only."""
    if isinstance(trace, list):
        raised = [each for each in trace if isinstance(each, dict)]
        trace = "\n".join(f"{each.get('exc_type')}: {each.get('exc_value')}" for each in raised)
    return "\n".join(f"    {line}" for line in printable(str(trace)).splitlines())
