"""One Hermes per state directory and database: two would answer the same messages twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from gateway.errors import AlreadyRunning, RestoreUnfinished, StateDirectoryUnusable
from gateway.store.sqlite import file_swap as swap

_ADDRESS = "hermes.address"
"""Beside the lock. It counts only while somebody holds that."""


@contextmanager
def hold_lock(home: Path, database: Path | None = None) -> Iterator[None]:
    """Held until the process ends, also by a crash: the operating system releases it.

    A database that is kept elsewhere could be shared by two state directories, so it is locked too.
    """
    with ExitStack() as stack:
        stack.enter_context(_locked(home / "hermes.lock"))
        if database is not None and database.parent != home:
            stack.enter_context(_locked(database.with_name(f"{database.name}.lock")))
        if database is not None:
            _finish_restore(database)
        _forget_address(home)  # of one that has crashed
        stack.callback(_forget_address, home)
        yield


def write_address(home: Path, url: str) -> None:
    """For `only_process`, while it is held: where the other commands reach this Hermes, whatever the configuration
    says by then. Without it they go by that."""
    path = home / _ADDRESS
    with suppress(OSError):
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{url}\n")


def read_address(home: Path) -> str | None:
    """Of the Hermes that holds this state directory; None where none does, or it has no page."""
    try:
        noted = (home / _ADDRESS).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return noted if noted and is_running(home) else None


def _forget_address(home: Path) -> None:
    with suppress(OSError):
        (home / _ADDRESS).unlink(missing_ok=True)


def is_running(home: Path) -> bool:
    """Whether a process holds this state directory now. Nothing is made by looking. The lock is tried only where the
    system says that somebody may hold it, or does not say: a Hermes that starts in that moment would be refused."""
    lock = home / "hermes.lock"
    locks = Path("/proc/locks")
    try:
        place = f":{lock.stat().st_ino} "
        if locks.exists() and place not in locks.read_text(encoding="ascii"):
            return False
        with _locked(lock):
            return False
    except FileNotFoundError:
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
        raise RestoreUnfinished(restore_instructions(database, error)) from error


def restore_instructions(database: Path, error: OSError) -> str:
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
