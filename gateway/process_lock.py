"""The lock that keeps a second Hermes from using the same state directory or database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from gateway.errors import AlreadyRunning, RestoreUnfinished, StateDirectoryUnusable
from gateway.store.sqlite import file_swap as swap

_ADDRESS = "hermes.address"
"""The file with the address of the running Hermes; valid only while the lock is held."""


@contextmanager
def hold_lock(home: Path, database: Path | None = None) -> Iterator[None]:
    """Hold the lock of the state directory; the operating system releases it when the process ends or crashes.

    A database outside the state directory gets its own lock, because two state directories could share it. Finishes
    an interrupted restore. Raises AlreadyRunning.
    """
    with ExitStack() as stack:
        stack.enter_context(_hold(home / "hermes.lock"))
        if database is not None and database.parent != home:
            stack.enter_context(_hold(database.with_name(f"{database.name}.lock")))
        if database is not None:
            try:
                swap.finish(database)
            except OSError as error:
                raise RestoreUnfinished(restore_instructions(database, error)) from error
        _forget_address(home)  # left by a process that crashed
        stack.callback(_forget_address, home)
        yield


def write_address(home: Path, url: str) -> None:
    """Write the URL under which other commands reach this Hermes, even if the configuration changes meanwhile."""
    path = home / _ADDRESS
    with suppress(OSError):
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{url}\n")


def read_address(home: Path) -> str | None:
    """Return the URL of the Hermes that holds the state directory; None if none runs or it has no web page."""
    try:
        noted = (home / _ADDRESS).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return noted if noted and is_running(home) else None


def _forget_address(home: Path) -> None:
    with suppress(OSError):
        (home / _ADDRESS).unlink(missing_ok=True)


def is_running(home: Path) -> bool:
    """Tell whether a process holds the state directory. Creates nothing.

    Tries the lock only if /proc/locks lists it or does not exist: a Hermes that starts meanwhile would be refused."""
    lock = home / "hermes.lock"
    locks = Path("/proc/locks")
    try:
        place = f":{lock.stat().st_ino} "
        if locks.exists() and place not in locks.read_text(encoding="ascii"):
            return False
        with _hold(lock):
            return False
    except FileNotFoundError:
        return False
    except AlreadyRunning:
        return True
    except StateDirectoryUnusable:
        return False


def restore_instructions(database: Path, error: OSError) -> str:
    return (
        f"{error.filename or database}: {error.strerror}. {swap.journal(database)} lists the files to rename, in "
        "order. Fix the cause (unmount the path, or allow writing), leave that file in place and start Hermes again: "
        "it finishes the restore."
    )


@contextmanager
def _hold(path: Path) -> Iterator[None]:
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
