"""One Hermes per state directory: two would answer the same messages twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from gateway.errors import AlreadyRunning


@contextmanager
def only_process(home: Path) -> Iterator[None]:
    """Held until the process ends, also by a crash: the operating system releases it."""
    lock = FileLock(home / "hermes.lock", mode=0o600)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise AlreadyRunning(str(home)) from None
    try:
        yield
    finally:
        lock.release()
