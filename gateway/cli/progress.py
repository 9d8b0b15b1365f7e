"""Progress bars on standard error, only at a terminal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gateway.cli.output import console
from gateway.progress import listening

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


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
        self._what = ""
        self._shown: tuple[Progress, TaskID] | None = None
        self._lock = threading.Lock()

    def __call__(self, what: str, done: int, total: int) -> None:
        with self._lock:
            if 0 < total <= done:
                self._remove()
                return
            if what != self._what or self._shown is None:
                self._remove()
                self._start(what)
            assert self._shown is not None
            bar, task = self._shown
            bar.update(task, completed=done, total=total or None)

    def close(self) -> None:
        with self._lock:
            self._remove()

    def _start(self, what: str) -> None:
        from rich.progress import (  # noqa: PLC0415 - slow to import
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        bar = Progress(*columns, console=self._out, transient=True)
        bar.start()
        self._what, self._shown = what, (bar, bar.add_task(what, total=None))

    def _remove(self) -> None:
        if self._shown is not None:
            self._shown[0].stop()
            self._shown = None
