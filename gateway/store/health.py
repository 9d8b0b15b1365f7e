"""How a database is, for somebody who looks from outside while others may use it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from agent.errors import StoreCorrupt
from agent.store import LearnedWindow
from gateway.inbox import Parked
from gateway.progress import tell
from gateway.store import reads
from gateway.store.connection import connect_reader, connect_writer
from gateway.store.errors import translated
from gateway.store.index import advance, progress
from gateway.store.parked import parked
from gateway.store.repair import index_damage, rebuild_index
from gateway.store.writer import commit_together


@dataclass(frozen=True, slots=True)
class Health:
    index_damage: str | None
    parked: list[Parked]
    log_bytes: int
    """Of the file in which what was written last waits to be taken over."""


def examine(path: Path) -> Health:
    """Reads all of it, for reading only: nothing is made, migrated or locked. Raises StoreCorrupt."""
    with translated(), closing(connect_reader(path)) as connection:
        if damage := reads.damage(connection):
            raise StoreCorrupt(f"({damage})")
        log = path.with_name(f"{path.name}-wal")
        return Health(index_damage(connection), parked(connection), log.stat().st_size if log.exists() else 0)


def parked_in(path: Path) -> list[Parked]:
    with translated(), closing(connect_reader(path)) as connection:
        return parked(connection)


def learned_windows_in(path: Path) -> list[LearnedWindow]:
    with translated(), closing(connect_reader(path)) as connection:
        return reads.learned_windows(connection)


def finish_index(path: Path) -> None:
    """The rest of what is stored, so that the next search need not wait for it."""
    with translated(), closing(connect_writer(path)) as connection:
        while (so_far := progress(connection)).indexed < so_far.stored:
            tell("Building the search index", *so_far)
            commit_together(connection, [advance])
        tell("Building the search index", 1, 1)


def repair(path: Path) -> int:
    """The search index anew, also beside a running gateway. How many messages are in it."""
    with translated(), closing(connect_writer(path)) as connection:
        return rebuild_index(connection)
