"""The engine's own SQLite file: opened when it is first needed, shared by all conversations of a process."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from . import echoes
from .own_file import APPLICATION_ID, FILE_NAME, ForeignDatabase, foreign, is_own, take_over_earlier

__all__ = ["FILE_NAME", "MOST_OPEN", "UNUSABLE", "Database", "NewerDatabase", "connect", "removed", "shared"]

MIGRATIONS = Path(__file__).parent / "migrations"
_BUSY_SECONDS = 5.0
MOST_OPEN = 8
"""Connections. SQLite keeps the descriptor of a closed one while another holds a lock, so closing frees nothing."""
_MOST_IDLE = 4
_PATIENCE = 30.0
"""Seconds to wait for one that is free: a search may take two, and a check of the whole file some more."""
_BY_HAND: dict[int, Callable[[sqlite3.Connection], None]] = {3: echoes.correct}
"""By the number of a migration: what SQL alone cannot do of it."""
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    # INSERT OR REPLACE deletes behind the back of triggers without this.
    "PRAGMA recursive_triggers = ON",
)


class NewerDatabase(Exception):
    """The file was written by a later version of the engine."""


UNUSABLE = (sqlite3.Error, OSError, NewerDatabase, ForeignDatabase)
"""What can be wrong with the file. The host has every message, too, so the conversation goes on."""


class Database:
    """Connections to one file. Each is used by one thread at a time, and none is held while a model is asked."""

    def __init__(self, path: Path, *, patience: float = _PATIENCE) -> None:
        self.path = path
        self._patience = patience
        self._free = threading.BoundedSemaphore(MOST_OPEN)
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._users = 0

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One view of the data for all queries inside."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction. Others wait for it, so nothing slow belongs inside."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    def acquire(self) -> None:
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """The last one to go closes the file."""
        with self._lock:
            self._users -= 1
            idle, self._idle = ([], self._idle) if self._users > 0 else (self._idle, [])
        for connection in idle:
            connection.close()

    @property
    def is_in_use(self) -> bool:
        return self._users > 0

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        if not self._free.acquire(timeout=self._patience):
            raise sqlite3.OperationalError(f"{self.path.name} is busy: all connections are in use")
        try:
            connection = self._taken()
            try:
                connection.execute(begin)
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                connection.close()
                raise
            self._give_back(connection)
        finally:
            self._free.release()

    def _taken(self) -> sqlite3.Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return connect(self.path)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if self._users > 0 and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()


_open: dict[Path, Database] = {}
_open_lock = threading.Lock()


def shared(path: Path) -> Database:
    """The same object for the same file. Who calls this calls `release()` in the end."""
    with _open_lock:
        for gone in [each for each, database in _open.items() if not database.is_in_use]:
            del _open[gone]
        database = _open.setdefault(path, Database(path))
        database.acquire()
        return database


def removed(folder: Path) -> None:
    """A folder that held a database of its own, which nobody needs any more."""
    with _open_lock:
        database = _open.pop(folder / FILE_NAME, None)
    while database and database.is_in_use:
        database.release()
    shutil.rmtree(folder, ignore_errors=True)


def connect(path: Path) -> sqlite3.Connection:
    """In autocommit mode and at the newest schema. Raises sqlite3.Error, NewerDatabase or ForeignDatabase."""
    _create_private_file(path)
    connection = sqlite3.connect(
        f"file:{quote(str(path))}",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        if not is_own(connection):
            raise foreign(path)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        connection.row_factory = sqlite3.Row
        _migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _create_private_file(path: Path) -> None:
    """What people said is nobody else's business. The log beside the file gets the same rights.

    A file that is there is never opened here: closing it again would drop the locks that SQLite holds on it in this
    process, and the next one to look at it from outside would take the log away from under us.
    """
    if path.exists():
        return
    with _open_lock, suppress(FileExistsError):
        take_over_earlier(path)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _migrate(connection: sqlite3.Connection) -> None:
    """Forward only, each step in one transaction with its number."""
    steps = sorted(MIGRATIONS.glob("[0-9]*.sql"))
    if _version(connection) == len(steps) and _is_marked(connection):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection)
        if version > len(steps):
            raise NewerDatabase(
                f"The database of the context engine has schema {version}, and this version knows {len(steps)}. "
                "Install the newer Hermes again, or move the file away."
            )
        for number, step in enumerate(steps[version:], start=version + 1):
            for statement in _statements(step.read_text(encoding="utf-8")):
                connection.execute(statement)
            if number in _BY_HAND:
                _BY_HAND[number](connection)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _is_marked(connection: sqlite3.Connection) -> bool:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    return bool(application == APPLICATION_ID)


def _statements(script: str) -> Iterator[str]:
    """One by one, because executescript() would commit in between."""
    statement = ""
    for line in re.split(r"(?<=\n)", script):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
