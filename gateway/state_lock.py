"""One Hermes per state directory and database: two would answer the same messages twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from gateway.errors import AlreadyRunning, RestoreUnfinished, StateDirectoryUnusable
from gateway.store import swap


@contextmanager
def only_process(home: Path, database: Path | None = None) -> Iterator[None]:
    """Held until the process ends, also by a crash: the operating system releases it.

    A database that is kept elsewhere could be shared by two state directories, so it is locked too.
    """
    with ExitStack() as stack:
        stack.enter_context(_locked(home / "hermes.lock"))
        if database is not None and database.parent != home:
            stack.enter_context(_locked(database.with_name(f"{database.name}.lock")))
        if database is not None:
            _finish_restore(database)
        yield


def is_running(home: Path) -> bool:
    """Whether a process holds this state directory now. Nothing is made by looking; and where the system tells who
    holds it, the lock is not touched, for a Hermes that starts in this moment would be refused."""
    lock = home / "hermes.lock"
    try:
        found = lock.stat()
        held = Path("/proc/locks").read_text(encoding="ascii")
    except FileNotFoundError:
        if not lock.exists():
            return False
    else:
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino} "
        return any("FLOCK" in line and place in line for line in held.splitlines())
    try:
        with _locked(lock):
            return False
    except AlreadyRunning:
        return True
    except StateDirectoryUnusable:
        return False


def _finish_restore(database: Path) -> None:
    """One that was interrupted."""
    try:
        swap.finish(database)
    except OSError as error:
        raise RestoreUnfinished(still_to_do(database, error)) from error


def still_to_do(database: Path, error: OSError) -> str:
    return (
        f"{error.filename or database}: {error.strerror}. What has to be renamed, in this order, stands in "
        f"{swap.journal(database)}. Mend the cause (unmount what is mounted there, give the right to write), leave "
        "that file where it is, and start Hermes again: it goes on by itself."
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = FileLock(path, mode=0o600)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except Timeout:
        raise AlreadyRunning(str(path.parent)) from None
    except OSError as error:
        raise StateDirectoryUnusable(f"({path}: {error.strerror})") from None
    try:
        yield
    finally:
        lock.release()
