"""Faults of a SQLite store: locked, full, read-only."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path

import pytest

from gateway.store.sqlite.connection import ThreadedConnection
from gateway.store.sqlite.store import SqliteStore

TABLES = ("conversations", "sessions", "messages", "session_context", "compactions", "model_calls", "facts")


class StoreOnDisk:
    """An open store, its writing connection, and a view of its file through another connection."""

    def __init__(self, path: Path, store: SqliteStore, writing: ThreadedConnection) -> None:
        self.path = path
        self.store = store
        self.writing = writing

    def rows(self) -> dict[str, list[object]]:
        with closing(sqlite3.connect(self.path)) as plain:
            return {table: plain.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}

    def is_sound(self) -> bool:
        with closing(sqlite3.connect(self.path)) as plain:
            return plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


Fault = Callable[[StoreOnDisk], AbstractAsyncContextManager[object]]


@asynccontextmanager
async def held(home: StoreOnDisk) -> AsyncIterator[None]:
    """Another program holds the write lock for longer than the busy timeout."""
    await home.writing.execute("PRAGMA busy_timeout = 20")
    with closing(sqlite3.connect(home.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@asynccontextmanager
async def full(home: StoreOnDisk) -> AsyncIterator[None]:
    """Fill the disk."""
    ballast = fill(home.path.parent)
    yield
    ballast.unlink()


def fill(directory: Path) -> Path:
    """Write a file until the disk is full."""
    ballast = directory / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return ballast


@asynccontextmanager
async def read_only(home: StoreOnDisk) -> AsyncIterator[None]:
    """Make SQLite report a read-only database."""
    await home.writing.execute("PRAGMA query_only = ON")
    yield
    await home.writing.execute("PRAGMA query_only = OFF")


@contextmanager
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of two megabytes if the user is root, else yield an ordinary directory."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(directory)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    yield directory
    if mounted:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def require_small_disk(fault: Fault, home: StoreOnDisk) -> None:
    if fault is full and shutil.disk_usage(home.path.parent).total > 10_000_000:
        pytest.skip("only root in a real system can mount a small file system")
