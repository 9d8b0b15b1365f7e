"""Integrity checks and repairs of the database."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import structlog

from agent.aio import run_in_daemon_thread
from agent.errors import StoreCorrupt, StoreError
from gateway.progress import report
from gateway.store.errors import translated
from gateway.store.ports import Diagnosis
from gateway.store.sql.batch_writer import commit_together
from gateway.store.sql.reports import parked
from gateway.store.sqlite.connection import connect_reader, connect_writer
from gateway.store.sqlite.database import Database
from gateway.store.sqlite.search_index import advance, index_damage, progress, rebuild_index

log = structlog.get_logger(__name__)

_DAY = 86_400.0
_CHECK_AGAIN_SECONDS = 300.0
_STEPS = 10_000
"""SQLite instructions between two checks whether the caller has stopped waiting."""


class SqliteHealth:
    """Long checks and repairs run on a thread and a connection of their own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def damage(self) -> str:
        return self._database.damage

    async def check_writable(self) -> None:
        await self._database.write(_write_unchanged, fence=None, durable=False)

    async def check_integrity(self) -> None:
        stop = threading.Event()
        try:
            found = await run_in_daemon_thread(
                partial(_check_integrity, self._database.path, stop), "integrity check"
            )
        finally:
            stop.set()
        if isinstance(found, StoreError):
            raise found
        self._database.damage = found
        if found:
            log.error("store.damaged", detail=found)

    async def monitor(self, *, again_seconds: float = _CHECK_AGAIN_SECONDS) -> None:
        """Check once a day, so that damage is known while there is a backup. Once damage is known, check every
        `again_seconds`: the file may have been repaired."""
        while True:
            with suppress(StoreError):
                await self.check_integrity()
            for _ in range(int(_DAY / again_seconds)):
                await asyncio.sleep(again_seconds)
                if self.damage:
                    break

    async def diagnose(self) -> Diagnosis:
        return await asyncio.to_thread(diagnose, self._database.path)

    async def rebuild_index(self) -> int:
        return await asyncio.to_thread(repair_index, self._database.path)

    async def finish_index(self) -> None:
        await asyncio.to_thread(_finish_index, self._database.path)


def _write_unchanged(connection: sqlite3.Connection) -> None:
    """Rewrite a row with its own value: a full disk or a read-only file shows only then."""
    connection.execute("UPDATE index_progress SET seq = seq")


def _check_integrity(path: Path, stop: threading.Event) -> str | StoreError:
    """Return the damage, or the error that prevented the check. Ends early after `stop`."""
    try:
        with translated(), closing(connect_reader(path)) as connection:
            connection.set_progress_handler(stop.is_set, _STEPS)
            return damage(connection) or ""
    except StoreCorrupt as error:
        return error.detail
    except StoreError as error:
        return error


def damage(connection: sqlite3.Connection) -> str | None:
    """Return the damage that SQLite finds in the whole file, or None. Ignores the search index, which SQLite checks
    from 3.44 on: it can be rebuilt, and `index_damage` checks it."""
    found = [row[0] for row in connection.execute("PRAGMA quick_check(3)") if "FTS5 table" not in row[0]]
    return None if found in ([], ["ok"]) else "; ".join(found)


def diagnose(path: Path) -> Diagnosis:
    with translated(), closing(connect_reader(path)) as connection:
        if found := damage(connection):
            raise StoreCorrupt(f"({found})")
        wal = path.with_name(f"{path.name}-wal")
        return Diagnosis(
            index_damage(connection), parked(connection), wal.stat().st_size if wal.exists() else 0
        )


def repair_index(path: Path) -> int:
    with translated(), closing(connect_writer(path)) as connection:
        return rebuild_index(connection)


def _finish_index(path: Path) -> None:
    with translated(), closing(connect_writer(path)) as connection:
        while (so_far := progress(connection)).indexed < so_far.stored:
            report("Building the search index", *so_far)
            commit_together(connection, [advance])
        report("Building the search index", 1, 1)
