"""Checks of `hermes doctor` for Python, the state directory, the configuration, the databases and the backups.

Checks raise nothing.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import platform
import shutil
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Literal

import gateway
from agent.context.auto_compaction import in_words
from agent.errors import HermesError, SearchIndexDamaged, StoreCorrupt
from agent.llm.guards import counts
from agent.store import LearnedWindow
from gateway.backup.create import backup_directory, latest_backup
from gateway.backup.engine_databases import check, engine_databases, is_sqlite
from gateway.cli import ignored_sentence
from gateway.cli.output import show_progress
from gateway.config import environment
from gateway.config.loader import LoadedConfig, ensure_home, load
from gateway.errors import ConfigError
from gateway.models.selection import auxiliary_spec, believed_window, configured_specs
from gateway.platforms.base import Finding
from gateway.store import open_store
from gateway.store.ports import Diagnosis

_OLDEST_PYTHON = (3, 11)
_DISTRIBUTION = "hermes-gateway"
_MEGABYTE = 1_000_000
_LEAST_FREE_MB, _TOO_LITTLE_MB = 500, 50
_OTHERS = 0o077
"""The permission bits of group and others."""
_LARGE_LOG = 500_000_000


def python() -> Finding:
    version = platform.python_version()
    if sys.version_info < _OLDEST_PYTHON:
        return Finding("fail", f"Python {version} is too old; install Python 3.11 or newer")
    return Finding("ok", f"Python {version}")


def packages() -> Iterator[Finding]:
    """Find other distributions with a top-level `agent` or `gateway`, which would replace ours."""
    providers = importlib.metadata.packages_distributions()
    strangers = {name: set(providers.get(name, ())) - {_DISTRIBUTION} for name in ("agent", "gateway")}
    for name, distributions in strangers.items():
        for distribution in sorted(distributions):
            yield Finding(
                "fail", f"{distribution} also installs `{name}`; install Hermes in its own environment"
            )
    if not any(strangers.values()):
        yield Finding("ok", f"Hermes is installed in {Path(gateway.__path__[0]).parent}")
    for entry in environment.relative_pythonpath():
        what = f"the relative entry {entry!r}" if entry else "an empty entry"
        yield Finding(
            "warn", f"PYTHONPATH has {what}: Python runs code from the folder you start Hermes in; remove it"
        )


def state_directory() -> Iterator[Finding]:
    try:
        home = environment.state_directory()
        if not home.exists():
            yield _to_be_made(home)
            return
        ensure_home(home)
        yield _privacy(home, "chmod 700")
        if (home / ".env").exists():
            yield _privacy(home / ".env", "chmod 600")
    except (HermesError, OSError) as error:
        yield Finding("fail", str(error))


def _to_be_made(home: Path) -> Finding:
    """Check that the state directory can be created, without creating it."""
    ground = _nearest_folder(home)
    if not ground.is_dir() or not os.access(ground, os.W_OK | os.X_OK):
        why = "is not writable" if ground.is_dir() else "is not a directory"
        return Finding(
            "fail",
            f"the state directory {home} cannot be created: {ground} {why}; change its permissions, or set HERMES_HOME",
        )
    return Finding("ok", f"the state directory {home} will be created at the first start")


def disk() -> Iterator[Finding]:
    """Warn about low disk space before messages are rejected because of it."""
    try:
        ground = _nearest_folder(environment.state_directory())
        free = shutil.disk_usage(ground).free // _MEGABYTE
    except (HermesError, OSError):
        return  # said in the line about the state directory
    if free < _LEAST_FREE_MB:
        level: Literal["fail", "warn"] = "fail" if free < _TOO_LITTLE_MB else "warn"
        yield Finding(
            level,
            f"only {free} MB are free on the disk of {ground}; free some: with a full disk Hermes accepts no message",
        )


def _nearest_folder(path: Path) -> Path:
    """Return the path, or its nearest parent that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _privacy(path: Path, remedy: str) -> Finding:
    if path.stat().st_mode & _OTHERS:
        return Finding("warn", f"{path} is open to other users of this machine; run `{remedy} {path}`")
    return Finding("ok", f"{path} is private to you")


def configuration(path: Path | None) -> Generator[Finding, None, LoadedConfig | None]:
    """Return the configuration if it is valid."""
    try:
        loaded = load(path)
    except ConfigError as error:
        for problem in error.problems:
            yield Finding("fail", problem)
    except HermesError as error:
        yield Finding("fail", str(error))
    else:
        hint = "" if loaded.path else "; `hermes setup` writes a file"
        yield Finding("ok", f"configuration from {loaded.source}{hint}")
        if loaded.ignored:
            yield Finding("warn", ignored_sentence(loaded.ignored, loaded.source))
        return loaded
    return None


def store(loaded: LoadedConfig, *, repair: bool) -> Iterator[Finding]:
    """Check the store read-only: nothing is created, migrated or locked."""
    path, name = loaded.database, loaded.store_name
    try:
        if not loaded.has_store():
            yield Finding("ok", f"the database {name} will be created at the first start")
            return
        diagnosis, windows = asyncio.run(_diagnose(loaded))
        yield Finding("ok", f"the database {name} is sound")
        if not loaded.database_url:
            yield _privacy(path, "chmod 600")
        yield _index(loaded, diagnosis.index_damage, repair=repair)
        yield from _left_undone(path, diagnosis)
        yield from _smaller_windows(loaded, windows)
        if not loaded.database_url:
            yield _backup(loaded.home)
    except StoreCorrupt as error:
        yield Finding("fail", f"{name} is damaged {error.detail}; {_remedy(loaded.home)}")
    except (HermesError, OSError) as error:
        yield Finding("fail", f"{name}: {error}")
    for engine in engine_databases(loaded.home, path):
        yield from _engine_database(engine, loaded.home)


async def _diagnose(loaded: LoadedConfig) -> tuple[Diagnosis, list[LearnedWindow]]:
    async with open_store(loaded, read_only=True) as store:
        return await store.health.diagnose(), await store.sessions.learned_windows()


def _engine_database(path: Path, home: Path) -> Iterator[Finding]:
    try:
        if not is_sqlite(path):
            yield Finding(
                "warn",
                f"{path} is not a SQLite database, or its header is damaged; backups do not include it",
            )
            return
        check(path)
        yield Finding("ok", f"the database {path} of a context engine is sound")
        yield _privacy(path, "chmod 600")
    except (StoreCorrupt, SearchIndexDamaged) as error:
        yield Finding("fail", f"{path} of a context engine is damaged {error.detail}; {_remedy(home)}")
    except (HermesError, OSError) as error:
        yield Finding("fail", f"{path}: {error}")


def _remedy(home: Path) -> str:
    latest = latest_backup(home)
    command = f"`hermes restore {latest or 'FILE'}` with {'the last' if latest else 'a'} backup"
    return f"stop Hermes and run {command}, or move it away to start with an empty one"


def _index(loaded: LoadedConfig, damage: str | None, *, repair: bool) -> Finding:
    if damage is None:
        return Finding("ok", "the search index matches the messages")
    if not repair:
        remedy = "`hermes doctor --repair` rebuilds it. No message is lost"
        return Finding("fail", f"the search index is damaged ({damage}); {remedy}")

    async def rebuild() -> int:
        async with open_store(loaded) as store:
            return await store.health.rebuild_index()

    with show_progress():
        count = asyncio.run(rebuild())
    return Finding("ok", f"the search index was damaged ({damage}); it was rebuilt from {count:,} messages")


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
