"""Finds this engine's own database file. Other plugins call theirs `lcm.db`, as this engine once did.

The application id in the header tells. Files from before it had one are told by their tables.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import structlog

log = structlog.get_logger(__name__)

FILE_NAME = "hermes-lcm.db"
EARLIER_NAME = "lcm.db"
APPLICATION_ID = 0x484C434D
"""`HLCM`."""
_TABLES = {
    "conversations": ("key", "id", "person"),
    "messages": ("conversation", "seq", "identity", "rest", "said_at", "echo"),
    "message_words": ("scope", "body"),
    "summaries": ("sources_key", "message_tokens", "first_seq"),
    "written": ("fingerprint", "kind", "message"),
    "context_items": ("session", "position", "message", "summary"),
}
"""Of the first schema, with columns that tell it from others."""
_BUSY_SECONDS = 5.0


class ForeignDatabase(Exception):
    """The file under the engine's name was made by another program."""


def is_own(connection: sqlite3.Connection) -> bool:
    """Also where nothing is in it yet. Only reads."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application:
        return bool(application == APPLICATION_ID)
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    return not objects or all(_has(connection, table, columns) for table, columns in _TABLES.items())


def foreign(path: Path) -> ForeignDatabase:
    return ForeignDatabase(
        f"{path} belongs to another program, so the context engine lcm keeps nothing there and compacts nothing. "
        "Move the file away or rename it, and send a message."
    )


def problem_with(path: Path) -> str:
    """Empty where nothing is wrong with it, or there is none. Changes nothing, also not beside the file."""
    if not path.exists() or not path.stat().st_size:
        return ""
    try:
        with closing(_only_looked_at(path)) as connection:
            return "" if is_own(connection) else str(foreign(path))
    except sqlite3.Error as error:
        return f"{path} cannot be read: {error}."


def take_over_earlier(path: Path) -> None:
    """The engine's own file gets its new name, with all that was committed. A file of another program stays.

    The log is merged first, so that one file is left, and renaming that is atomic: a crash leaves it under either name.
    Raises sqlite3.Error while another process has the file open.
    """
    if path.exists() or not path.with_name(EARLIER_NAME).exists():
        return
    with _locked(path.parent) as folder:
        earlier = path.with_name(EARLIER_NAME)
        if path.exists() or not earlier.exists() or not _is_ours_from_before(earlier):
            return
        with closing(_opened(earlier, "mode=rw")) as connection:
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
    """One process at a time, without a file of its own; also after a crash. Gives a descriptor of the folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _is_ours_from_before(earlier: Path) -> bool:
    """An empty file is nobody's."""
    try:
        with closing(_only_looked_at(earlier)) as connection:
            (objects,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            return bool(objects) and is_own(connection)
    except (sqlite3.Error, OSError) as error:
        log.warning("lcm.earlier_file_unreadable", path=str(earlier), reason=str(error))
        return False


def _only_looked_at(path: Path) -> sqlite3.Connection:
    """Without a lock and without the files that SQLite makes beside it, unless its tables are only in its log."""
    connection = _opened(path, "mode=ro&immutable=1")
    log_file = path.with_name(f"{path.name}-wal")
    try:
        if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] or not log_file.exists():
            return connection
    except sqlite3.Error:
        if not log_file.exists():
            connection.close()
            raise
    connection.close()
    return _opened(path, "mode=ro")


def _opened(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(str(path))}?{how}", uri=True, timeout=_BUSY_SECONDS, isolation_level=None
    )


def _has(connection: sqlite3.Connection, table: str, columns: tuple[str, ...]) -> bool:
    there = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
    return there.issuperset(columns)
