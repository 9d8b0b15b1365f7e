"""Checks of `hermes doctor` for the databases and the backups."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from agent.context.auto_compaction import in_words
from agent.errors import HermesError, SearchIndexDamaged, StoreCorrupt
from agent.llm.guards import counts
from agent.store import LearnedWindow
from gateway.backup.create import backup_directory, latest_backup
from gateway.backup.engine_databases import check, engine_databases, is_sqlite
from gateway.cli.doctor_checks_host import private
from gateway.cli.output import show_progress
from gateway.config.loader import LoadedConfig
from gateway.models.selection import (
    auxiliary_spec,
    believed_window,
    configured_specs,
)
from gateway.platforms.base import Finding
from gateway.store import open_store
from gateway.store.ports import Diagnosis

_LARGE_LOG = 500_000_000


def store(loaded: LoadedConfig, *, repair: bool) -> Iterator[Finding]:
    """Check the store read-only: nothing is created, migrated or locked."""
    path = loaded.database
    try:
        if not path.exists():
            yield Finding("ok", f"the database {path} will be created at the first start")
            return
        diagnosis, windows = asyncio.run(_diagnose(loaded))
        yield Finding("ok", f"the database {path} is sound")
        yield from private(path, "chmod 600")
        yield from _index(loaded, diagnosis.index_damage, repair=repair)
        yield from _left_undone(path, diagnosis)
        yield from _smaller_windows(loaded, windows)
        yield _backup(loaded.home)
    except StoreCorrupt as error:
        yield Finding("fail", f"{path} is damaged {error.detail}; {_remedy(loaded.home)}")
    except (HermesError, OSError) as error:
        yield Finding("fail", f"{path}: {error}")
    for engine in engine_databases(loaded.home, path):
        yield from _of_an_engine(engine, loaded.home)


async def _diagnose(loaded: LoadedConfig) -> tuple[Diagnosis, list[LearnedWindow]]:
    async with open_store(loaded, read_only=True) as store:
        return await store.health.diagnose(), await store.sessions.learned_windows()


async def _rebuild_index(loaded: LoadedConfig) -> int:
    async with open_store(loaded) as store:
        return await store.health.rebuild_index()


def _of_an_engine(path: Path, home: Path) -> Iterator[Finding]:
    try:
        if not is_sqlite(path):
            yield Finding(
                "warn",
                f"{path} is not a SQLite database, or its header is damaged; backups do not include it",
            )
            return
        check(path)
        yield Finding("ok", f"the database {path} of a context engine is sound")
        yield from private(path, "chmod 600")
    except (StoreCorrupt, SearchIndexDamaged) as error:
        yield Finding("fail", f"{path} of a context engine is damaged {error.detail}; {_remedy(home)}")
    except (HermesError, OSError) as error:
        yield Finding("fail", f"{path}: {error}")


def _remedy(home: Path) -> str:
    latest = latest_backup(home)
    backup = (
        f"stop Hermes and run `hermes restore {latest or 'FILE'}` with {'the last' if latest else 'a'} backup"
    )
    return f"{backup}, or move it away to start with an empty one"


def _index(loaded: LoadedConfig, damage: str | None, *, repair: bool) -> Iterator[Finding]:
    if damage is None:
        yield Finding("ok", "the search index matches the messages")
    elif repair:
        with show_progress():
            count = asyncio.run(_rebuild_index(loaded))
        yield Finding(
            "ok", f"the search index was damaged ({damage}); it was rebuilt from {count:,} messages"
        )
    else:
        remedy = "`hermes doctor --repair` rebuilds it. No message is lost"
        yield Finding("fail", f"the search index is damaged ({damage}); {remedy}")


def _left_undone(path: Path, diagnosis: Diagnosis) -> Iterator[Finding]:
    """Report parked messages and a large write-ahead log, which a person must handle."""
    count = Counter(each.kind for each in diagnosis.parked)
    look = "`hermes doctor --parked` lists them"
    if count["message"]:
        yield Finding("warn", f"messages that could not be answered: {count['message']}; {look}")
    if count["reply"]:
        yield Finding("warn", f"replies that could not be delivered: {count['reply']}; {look}")
    if diagnosis.log_bytes > _LARGE_LOG:
        size = f"{diagnosis.log_bytes / 1_000_000:.0f} MB"
        yield Finding(
            "warn",
            f"{path}-wal has grown to {size}: a program keeps the database open for reading; close it",
        )


def _smaller_windows(loaded: LoadedConfig, windows: list[LearnedWindow]) -> Iterator[Finding]:
    """Report models whose real context window is smaller than configured."""
    config = loaded.config
    specs = configured_specs(config.model)
    answering = [believed_window(spec) for spec in specs]
    summariser = auxiliary_spec(config.auxiliary.compression, config.model)
    summarising = [believed_window(summariser)] if summariser else []
    for window in windows:
        for model, endpoint, believed in dict.fromkeys((*answering, *summarising)):
            is_same = (window.model, window.endpoint) == (model, endpoint)
            if is_same and counts(window, believed, time.time()):
                answers = (model, endpoint, believed) in answering
                yield Finding("warn", in_words(window, specs[0].name, summarises=not answers))


def _backup(home: Path) -> Finding:
    latest = latest_backup(home)
    if latest is None:
        return Finding("ok", f"there is no backup in {backup_directory(home)}; `hermes backup` creates one")
    return Finding("ok", f"the last backup is {latest}")
