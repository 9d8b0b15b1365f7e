"""Connections to PostgreSQL that take the shared statements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import errors, pq
from psycopg.adapt import Loader
from psycopg.types.string import StrDumper

from agent.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)
from gateway.store.sql.database import Cursor

CONNECT_TIMEOUT_SECONDS = 5

_ESCAPE = "\x10"
_ESCAPED = {_ESCAPE: _ESCAPE + "1", "\0": _ESCAPE + "0"}
_PLAIN = {escaped: plain for plain, escaped in _ESCAPED.items()}
_TO_ESCAPE = re.compile(f"[\0{_ESCAPE}]")
_TO_RESTORE = re.compile(f"{_ESCAPE}[01]")

_ERRORS: tuple[tuple[tuple[type[psycopg.Error], ...], type[StoreError]], ...] = (
    ((errors.DiskFull,), StoreFull),
    ((errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege), StoreReadOnly),
    ((errors.DataCorrupted, errors.IndexCorrupted), StoreCorrupt),
    ((errors.LockNotAvailable, errors.DeadlockDetected, errors.QueryCanceled), StoreBusy),
    # The server is away, restarts or has no connection left.
    ((psycopg.OperationalError, psycopg.InterfaceError), StoreUnreachable),
)


def as_store_error(error: psycopg.Error) -> StoreError:
    kind = next((ours for theirs, ours in _ERRORS if isinstance(error, theirs)), StoreError)
    return kind(f"({' '.join(str(error).split())})")


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors of PostgreSQL into store errors."""
    try:
        yield
    except psycopg.Error as error:
        raise as_store_error(error) from error


class PostgresConnection:
    """A `Connection` of the shared statements over one of psycopg in autocommit mode."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self._raw = raw

    @property
    def in_transaction(self) -> bool:
        return self._raw.info.transaction_status not in (
            pq.TransactionStatus.IDLE,
            pq.TransactionStatus.UNKNOWN,
        )

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Cursor:
        """Run a statement; without parameters, it may be several."""
        with translated():
            if not parameters:
                return self._raw.execute(sql, prepare=False)
            return self._raw.execute(translate(sql), parameters)

    def executemany(self, sql: str, parameters: Sequence[Sequence[Any]]) -> Cursor:
        cursor = self._raw.cursor()
        with translated():
            cursor.executemany(translate(sql), parameters)
        return cursor


@lru_cache(maxsize=2_000)
def translate(sql: str) -> str:
    """Return the statement with placeholders of psycopg, without hints for SQLite."""
    return _OURS.sub(lambda found: _THEIRS[found.lastgroup or ""](found), sql)


_OURS = re.compile(r"(?P<mark>\?)|(?<!:):(?P<name>[a-z_]+)|(?P<hint>INDEXED BY \w+)")
_THEIRS: dict[str, Callable[[re.Match[str]], str]] = {
    "mark": lambda _: "%s",
    "name": lambda found: f"%({found['name']})s",
    "hint": lambda _: "",
}


class _TextDumper(StrDumper):
    """Sends texts as `text`. NUL, which PostgreSQL cannot store, is escaped."""

    def dump(self, obj: str) -> bytes | None:
        if "\0" in obj or _ESCAPE in obj:
            obj = _TO_ESCAPE.sub(lambda found: _ESCAPED[found[0]], obj)
        return obj.encode()


class _TextLoader(Loader):
    def load(self, data: bytes | bytearray | memoryview) -> str:
        text = str(data, "utf-8")
        if _ESCAPE in text:
            text = _TO_RESTORE.sub(lambda found: _PLAIN[found[0]], text)
        return text


class _WholeNumberLoader(Loader):
    """Sums of integers are `numeric`."""

    def load(self, data: bytes | bytearray | memoryview) -> int:
        return int(bytes(data))


def configure(raw: psycopg.Connection[Any]) -> None:
    """Set up the conversions between the types of Python and PostgreSQL."""
    raw.adapters.register_dumper(str, _TextDumper)
    raw.adapters.register_loader("text", _TextLoader)
    raw.adapters.register_loader("numeric", _WholeNumberLoader)


def connect(url: str) -> psycopg.Connection[Any]:
    """Connect on the calling thread. Raises StoreError."""
    with translated():
        raw = psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_TIMEOUT_SECONDS)
    configure(raw)
    return raw
