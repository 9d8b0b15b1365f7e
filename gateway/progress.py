"""Progress of long tasks.

A task may run on any thread and far below its caller, so listeners are registered for the whole process.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Listener = Callable[[str, int, int], None]
"""Called with the name of the task, the amount done and the total amount; the total is 0 if it is unknown."""

_listeners: list[Listener] = []


def report(what: str, done: int, total: int) -> None:
    for listener in _listeners:
        listener(what, done, total)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def open_with_progress(path: Path, what: str) -> io.BufferedReader:
    """Open a file that reports how much of it has been read."""
    return io.BufferedReader(_ProgressFile(path, what))


class _ProgressFile(io.FileIO):
    def __init__(self, path: Path, what: str) -> None:
        super().__init__(path)
        self._what = what
        self._size = path.stat().st_size

    def readinto(self, buffer: Any, /) -> int:
        count = super().readinto(buffer)
        report(self._what, self.tell(), self._size)
        return count or 0
