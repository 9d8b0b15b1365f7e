"""The engine's SQLite file: identification, migrations, and a pool of connections shared by all conversations.

Other plugins use the name `lcm.db`, as this engine once did. The application id in the header identifies this engine's
file; files older than that id are identified by their tables.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import structlog

from .messages import reindex_mistaken_echoes

log = structlog.get_logger(__name__)

FILE_NAME = "hermes-lcm.db"
EARLIER_NAME = "lcm.db"
APPLICATION_ID = 0x484C434D
"""`HLCM` in ASCII."""
_TABLES = {
    "conversations": ("key", "id", "person"),
    "messages": ("conversation", "seq", "identity", "rest", "said_at", "echo"),
    "message_words": ("scope", "body"),
    "summaries": ("sources_key", "message_tokens", "first_seq"),
    "written": ("fingerprint", "kind", "message"),
    "context_items": ("session", "position", "message", "summary"),
}
"""Tables of the first schema, with columns that distinguish them from other programs' tables."""
_BUSY_SECONDS = 5.0


class ForeignDatabase(Exception):
    """The file belongs to another program."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} belongs to another program, so the context engine lcm keeps nothing there and compacts nothing. "
            "Move the file away or rename it, and send a message."
        )


def is_own(connection: sqlite3.Connection) -> bool:
    """Whether the file belongs to this engine or is empty. Only reads."""
    if application := _pragma(connection, "application_id"):
        return application == APPLICATION_ID
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    return not objects or all(
        {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}.issuperset(columns)
        for table, columns in _TABLES.items()
    )


def find_problem(path: Path) -> str:
    """Describe what is wrong with the file; empty if nothing is, or if there is no file. Writes nothing."""
    if not path.exists() or not path.stat().st_size:
        return ""
    try:
        with closing(_open_for_inspection(path)) as connection:
            return "" if is_own(connection) else str(ForeignDatabase(path))
    except sqlite3.Error as error:
        return f"{path} cannot be read: {error}."


def rename_earlier_file(path: Path) -> None:
    """Rename the engine's own `lcm.db` to its new name. A file of another program stays.

    The write-ahead log is merged first, so one file is left and renaming it is atomic. Raises sqlite3.Error while
    another process has the file open.
    """
    if path.exists() or not path.with_name(EARLIER_NAME).exists():
        return
    with _locked(path.parent) as folder:
        earlier = path.with_name(EARLIER_NAME)
        if path.exists() or not earlier.exists() or not _is_earlier_file(earlier):
            return
        with closing(_open_uri(earlier, "mode=rw")) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("BEGIN EXCLUSIVE")
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            if mode != "delete":
                raise sqlite3.OperationalError(f"{earlier} is used by another process")
            earlier.rename(path)
            os.fsync(folder)
            connection.execute("COMMIT")
    log.info("lcm.renamed", earlier=str(earlier), now=str(path))


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Lock the folder against other processes, and yield its descriptor. A crash releases the lock."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _is_earlier_file(earlier: Path) -> bool:
    try:
        with closing(_open_for_inspection(earlier)) as connection:
            (objects,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            return bool(objects) and is_own(connection)
    except (sqlite3.Error, OSError) as error:
        log.warning("lcm.earlier_file_unreadable", path=str(earlier), reason=str(error))
        return False


def _open_for_inspection(path: Path) -> sqlite3.Connection:
    """Open without locks and without creating files, unless the tables are only in the write-ahead log."""
    connection = _open_uri(path, "mode=ro&immutable=1")
    log_file = path.with_name(f"{path.name}-wal")
    try:
        if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] or not log_file.exists():
            return connection
    except sqlite3.Error:
        if not log_file.exists():
            connection.close()
            raise
    connection.close()
    return _open_uri(path, "mode=ro")


def _open_uri(path: Path, how: str) -> sqlite3.Connection:
    """Open in autocommit mode."""
    return sqlite3.connect(
        f"file:{quote(str(path))}?{how}",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


MIGRATIONS = Path(__file__).parent / "migrations"
MAX_CONNECTIONS = 8
"""SQLite keeps the descriptor of a closed connection while another one holds a lock, so closing frees nothing."""
_MAX_IDLE = 4
_WAIT_SECONDS = 30.0
"""Time to wait for a free connection: a search takes up to two seconds, an integrity check longer."""
_MIGRATION_CODE: dict[int, Callable[[sqlite3.Connection], None]] = {3: reindex_mistaken_echoes}
"""Python code that belongs to a migration, by its number."""
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    # Without this, INSERT OR REPLACE deletes rows without firing triggers.
    "PRAGMA recursive_triggers = ON",
)


class NewerDatabase(Exception):
    """A later version of the engine wrote the file."""


DATABASE_ERRORS = (sqlite3.Error, OSError, NewerDatabase, ForeignDatabase)
"""Errors that make the file unusable. The host stores every message, too, so the conversation goes on."""


class Database:
    """A pool of connections to one file. One thread uses a connection at a time; none is held during a model call."""

    def __init__(self, path: Path, *, wait_seconds: float = _WAIT_SECONDS) -> None:
        self.path = path
        self._wait_seconds = wait_seconds
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._users = 0

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """Open a read transaction: one view of the data."""
        return self._transaction("BEGIN")

    def writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """Open a write transaction. Other writers wait for it, so it must be short."""
        return self._transaction("BEGIN IMMEDIATE")

    def acquire(self) -> None:
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """Close the idle connections with the last user."""
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
        if not self._free.acquire(timeout=self._wait_seconds):
            raise sqlite3.OperationalError(f"{self.path.name} is busy: all connections are in use")
        try:
            connection = self._take()
            with ExitStack() as on_error:
                on_error.callback(connection.close)
                connection.execute(begin)
                with connection:  # commits, or rolls back after an error
                    yield connection
                on_error.pop_all()
            self._put_back(connection)
        finally:
            self._free.release()

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return connect(self.path)

    def _put_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if self._users > 0 and len(self._idle) < _MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()


_open: dict[Path, Database] = {}
_open_lock = threading.Lock()


def shared_database(path: Path) -> Database:
    """Return the same object for the same file. The caller must call `release()`."""
    with _open_lock:
        for gone in [each for each, database in _open.items() if not database.is_in_use]:
            del _open[gone]
        database = _open.setdefault(path, Database(path))
        database.acquire()
        return database


def close_database(folder: Path) -> None:
    """Close the database in this folder, even where it is in use."""
    with _open_lock:
        database = _open.pop(folder / FILE_NAME, None)
    while database and database.is_in_use:
        database.release()


def connect(path: Path) -> sqlite3.Connection:
    """Open and migrate to the newest schema. Raises sqlite3.Error, NewerDatabase or ForeignDatabase."""
    _create_private_file(path)
    connection = _open_uri(path, "mode=rw")
    with ExitStack() as on_error:
        on_error.callback(connection.close)
        if not is_own(connection):
            raise ForeignDatabase(path)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        connection.row_factory = sqlite3.Row
        _migrate(connection)
        on_error.pop_all()
    return connection


def _create_private_file(path: Path) -> None:
    """Create the file with mode 0600. The write-ahead log gets the same mode.

    An existing file is not opened here: closing it would drop the locks that SQLite holds on it in this process.
    """
    if path.exists():
        return
    with _open_lock, suppress(FileExistsError):
        rename_earlier_file(path)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _migrate(connection: sqlite3.Connection) -> None:
    """Apply missing migrations, each in one transaction with its number."""
    steps = sorted(MIGRATIONS.glob("[0-9]*.sql"))
    newest = (len(steps), APPLICATION_ID)
    if (_pragma(connection, "user_version"), _pragma(connection, "application_id")) == newest:
        return
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        version = _pragma(connection, "user_version")
        if version > len(steps):
            raise NewerDatabase(
                f"The database of the context engine has schema {version}, and this version knows {len(steps)}. "
                "Install the newer Hermes again, or move the file away."
            )
        for number, step in enumerate(steps[version:], start=version + 1):
            for statement in _statements(step.read_text(encoding="utf-8")):
                connection.execute(statement)
            if number in _MIGRATION_CODE:
                _MIGRATION_CODE[number](connection)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _statements(script: str) -> Iterator[str]:
    """Split the script, because executescript() would commit in between."""
    statement = ""
    for line in re.split(r"(?<=\n)", script):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
