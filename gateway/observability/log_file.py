"""The log as a file of JSON lines, bounded and for the owner's eyes only, from which `hermes logs` reads.

What is written here has passed the same processors as the lines on standard error, so it holds no secrets either. Where
it cannot be written (a full disk, say) nothing happens: standard error has it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from structlog.typing import EventDict, WrappedLogger

from gateway.config.schema import LoggingConfig

LARGEST = 2_000_000
"""Bytes of one file. Then it gets a number, and a new one is begun."""
OLDER = 4
"""So many are kept beside the one that is being written."""


def log_file(home: Path) -> Path:
    return home / "logs" / "hermes.log"


def configured_log_file(config: LoggingConfig, home: Path) -> Path | None:
    return log_file(home) if config.file else None


def all_files(path: Path) -> list[Path]:
    """Those that are there, the oldest first."""
    return [
        file for file in (*(_numbered(path, number) for number in range(OLDER, 0, -1)), path) if file.exists()
    ]


def parsed(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Without what is no event, as half a line that was being written during a power cut."""
    for line in lines:
        with suppress(ValueError, RecursionError):
            event = json.loads(line)
            if isinstance(event, dict):
                yield event


class Kept:
    """A structlog processor that writes down what passes, and lets it pass."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._one_at_a_time = threading.Lock()

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        self.write(event)
        return event

    def write(self, event: EventDict) -> None:
        event = {"timestamp": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}", **event}
        line = json.dumps(event, ensure_ascii=False, default=str).encode(errors="replace") + b"\n"
        with self._one_at_a_time, suppress(OSError):
            file = self._file or self._opened()
            if file.tell() + len(line) > LARGEST and file.tell():
                file = self._begun_anew()
            file.write(line)

    def close(self) -> None:
        with self._one_at_a_time:
            self._closed()

    def _opened(self) -> IO[bytes]:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        # Unbuffered: what was logged last is what one looks for after a crash.
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(handle, "ab", 0)
        self._file.seek(0, os.SEEK_END)
        return self._file

    def _closed(self) -> None:
        if self._file:
            self._file.close()
            self._file = None

    def _begun_anew(self) -> IO[bytes]:
        self._closed()
        for number in range(OLDER, 0, -1):
            younger = _numbered(self._path, number - 1) if number > 1 else self._path
            with suppress(FileNotFoundError):
                younger.replace(_numbered(self._path, number))
        return self._opened()


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")
