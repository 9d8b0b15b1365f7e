"""The log file that `hermes logs` reads: rotating JSON lines, readable by the owner only.

Events have passed the same processors as the lines on standard error, so the file holds no secrets either. A file that
cannot be written (a full disk, say) costs only the file: standard error still has the line.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from structlog.typing import EventDict, WrappedLogger

from gateway.config.schema import LoggingConfig

MAX_BYTES = 2_000_000
BACKUPS = 4
"""Rotated files that are kept beside the current one: `hermes.log.1` is the newest."""


def log_file(home: Path) -> Path:
    return home / "logs" / "hermes.log"


def configured_log_file(config: LoggingConfig, home: Path) -> Path | None:
    return log_file(home) if config.file else None


def all_files(path: Path) -> list[Path]:
    """List the existing log files, oldest first."""
    rotated = (path.with_name(f"{path.name}.{number}") for number in range(BACKUPS, 0, -1))
    return [file for file in (*rotated, path) if file.exists()]


def parse_events(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Parse the lines of a log file; skip damaged lines, such as one that a power cut truncated."""
    for line in lines:
        with suppress(ValueError, RecursionError):
            event = json.loads(line)
            if isinstance(event, dict):
                yield event


class JsonLogFile(RotatingFileHandler):
    """A structlog processor that appends each event to a log file and passes the event on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        super().__init__(
            path, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8", errors="replace", delay=True
        )

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        self.write(event)
        return event

    def write(self, event: EventDict) -> None:
        event = {"timestamp": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}", **event}
        line = json.dumps(event, ensure_ascii=False, default=str)
        self.handle(logging.makeLogRecord({"msg": line}))

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            if self.stream is None:
                self._create_private()
            super().emit(record)

    def doRollover(self) -> None:
        super().doRollover()
        self._create_private()

    def handleError(self, record: logging.LogRecord) -> None:
        """Ignore the error: standard error has the line."""

    def _create_private(self) -> None:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        self._path.touch(mode=0o600)
