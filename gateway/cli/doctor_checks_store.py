"""What `hermes doctor` looks at in the database, and the one thing there that it can mend."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from agent.context.overflow import in_words
from agent.errors import HermesError, SearchIndexDamaged, StoreCorrupt
from agent.models.windows import counts
from gateway.backups.making import backup_directory, latest_backup
from gateway.cli.doctor_checks import Finding, private
from gateway.cli.progress import progress_shown
from gateway.config.load import Loaded
from gateway.models.configured import configured_windows
from gateway.store.beside import check, engine_databases, is_sqlite
from gateway.store.health import Health, examine, learned_windows_in
from gateway.store.health import repair as rebuild_index

_LARGE_LOG = 500_000_000


def store(loaded: Loaded, *, repair: bool) -> Iterator[Finding]:
    """Opened for reading only, so that nothing is made, migrated or locked by looking."""
    path = loaded.database
    try:
        if not path.exists():
            yield Finding("ok", f"the database {path} will be made at the first start")
            return
        health = examine(path)
        yield Finding("ok", f"the database {path} is sound")
        yield from private(path, "chmod 600")
        yield from _index(path, health.index_damage, repair=repair)
        yield from _left_undone(path, health)
        yield from _smaller_windows(loaded)
        yield _backup(loaded.home)
    except StoreCorrupt as error:
        yield Finding("fail", f"{path} is damaged {error.detail}; {_remedy(loaded.home)}")
    except (HermesError, OSError) as error:
        yield Finding("fail", f"{path}: {error}")
    for engine in engine_databases(loaded.home, path):
        yield from _of_an_engine(engine, loaded.home)


def _of_an_engine(path: Path, home: Path) -> Iterator[Finding]:
    try:
        if not is_sqlite(path):
            yield Finding(
                "warn", f"{path} is no SQLite database, or its beginning is lost; no backup holds it"
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
    return f"{backup}, or move it aside to start anew"


def _index(path: Path, damage: str | None, *, repair: bool) -> Iterator[Finding]:
    if damage is None:
        yield Finding("ok", "the search index fits the messages")
    elif repair:
        with progress_shown():
            count = rebuild_index(path)
        yield Finding(
            "ok", f"the search index was damaged ({damage}); it was built anew from {count:,} messages"
        )
    else:
        remedy = "`hermes doctor --repair` builds it anew. Nothing that was said is lost"
        yield Finding("fail", f"the search index is damaged ({damage}); {remedy}")


def _left_undone(path: Path, health: Health) -> Iterator[Finding]:
    """Nothing here is mended by itself: what to do about it is for a person to say."""
    count = Counter(each.kind for each in health.parked)
    look = "`hermes doctor --parked` lists them"
    if count["message"]:
        yield Finding("warn", f"messages that could not be answered: {count['message']}; {look}")
    if count["reply"]:
        yield Finding("warn", f"replies that could not be delivered: {count['reply']}; {look}")
    if health.log_bytes > _LARGE_LOG:
        size = f"{health.log_bytes / 1_000_000:.0f} MB"
        yield Finding(
            "warn",
            f"{path}-wal has grown to {size}: some program reads the database without an end; close it",
        )


def _smaller_windows(loaded: Loaded) -> Iterator[Finding]:
    """Models that refused what should have fitted, for as long as Hermes goes by that."""
    believed = configured_windows(loaded.config.model)
    main_model = next(iter(believed))
    for window in learned_windows_in(loaded.database):
        if counts(window, believed.get(window.model, 0), time.time()):
            yield Finding("warn", in_words(window, main_model))


def _backup(home: Path) -> Finding:
    latest = latest_backup(home)
    if latest is None:
        return Finding("ok", f"no backup lies in {backup_directory(home)}; `hermes backup` makes one")
    return Finding("ok", f"the last backup is {latest}")
