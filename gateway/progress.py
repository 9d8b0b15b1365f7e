"""How far a long piece of work has come, for whoever watches. Most of the time nobody does.

The work may happen on any thread and far below whoever asked for it, so it is told to the process and not handed down.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Listener = Callable[[str, int, int], None]
"""What is being done, how much of it is done, and how much there is; 0 where nobody knows."""

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
    """The file, opened; whoever listens hears how much of it has been read."""
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
