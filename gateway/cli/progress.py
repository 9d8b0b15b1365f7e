"""Bars for work that takes a while, on standard error and only where a person looks."""

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
def progress_shown() -> Iterator[None]:
    """What is told meanwhile is seen as it happens, and gone when it is over. In a pipe there is silence."""
    out = console(stderr=True)
    if not out.is_terminal:
        yield
        return
    bars = _Bars(out)
    with listening(bars):
        try:
            yield
        finally:
            bars.close()


class _Bars:
    """One at a time: the next piece of work takes the place of the last. Told from any thread."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._what = ""
        self._shown: tuple[Progress, TaskID] | None = None
        self._one_at_a_time = threading.Lock()

    def __call__(self, what: str, done: int, total: int) -> None:
        with self._one_at_a_time:
            if 0 < total <= done:
                self._remove()
                return
            if what != self._what or self._shown is None:
                self._remove()
                self._begin(what)
            assert self._shown is not None
            bar, task = self._shown
            bar.update(task, completed=done, total=total or None)

    def close(self) -> None:
        with self._one_at_a_time:
            self._remove()

    def _begin(self, what: str) -> None:
        from rich.progress import (  # noqa: PLC0415 - most work is over before a bar is needed
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
