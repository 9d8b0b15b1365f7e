"""Checks of `hermes doctor` for limits, sandbox and store."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from agent.context.overflow import in_words
from agent.errors import HermesError, SandboxNotAvailable, SearchIndexDamaged, StoreCorrupt
from agent.llm.windows import counts
from agent.store import LearnedWindow
from agent.tools.terminal import terminal
from gateway.app import build_sandbox
from gateway.backup.create import backup_directory, latest_backup
from gateway.backup.engine_databases import check, engine_databases, is_sqlite
from gateway.cli.doctor_checks import private
from gateway.cli.progress import show_progress
from gateway.config.loader import LoadedConfig
from gateway.config.schema import Config
from gateway.limits.budget import format_usd
from gateway.models.catalog import has_price
from gateway.models.selection import (
    auxiliary_spec,
    believed_window,
    configured_models,
    configured_specs,
    is_local,
)
from gateway.platforms.base import Finding
from gateway.store import open_store
from gateway.store.ports import Diagnosis


def limits(config: Config) -> Iterator[Finding]:
    """Report the daily budget, if one is set."""
    caps = {
        "for each person": config.limits.daily_usd_per_person,
        "for everybody": config.limits.daily_usd_total,
    }
    told = [f"{format_usd(cap)} {whose}" for whose, cap in caps.items() if cap is not None]
    if not told:
        return
    yield Finding("ok", f"daily budget: {' and '.join(told)}, from midnight to midnight, local time")
    try:
        unknown = [model for model, base_url in _models(config) if not _price_is_known(model, base_url)]
    except HermesError:
        return  # reported by the check of the model
    if unknown:
        assumed = f"{format_usd(config.limits.unknown_price)} per million tokens"
        yield Finding(
            "warn",
            f"the price of {', '.join(dict.fromkeys(unknown))} is not known; against the daily budget it counts as "
            f"{assumed} (limits.unknown_price)",
        )


def _models(config: Config) -> Iterator[tuple[str, str | None]]:
    """Yield all models that may cost money, with their `base_url`."""
    yield from configured_models(config.model)
    summaries, voice = (
        auxiliary_spec(config.auxiliary.compression, config.model),
        config.auxiliary.transcription,
    )
    if summaries:
        yield summaries.name, summaries.base_url
    if voice.model:
        yield voice.model, voice.base_url


def _price_is_known(model: str, base_url: str | None) -> bool:
    is_ollama = base_url is None and model.startswith(("ollama/", "ollama_chat/"))
    return is_ollama or is_local(base_url) or has_price(model)


def sandbox(loaded: LoadedConfig) -> Iterator[Finding]:
    """Check the sandbox, if the `terminal` tool is enabled."""
    tools = loaded.config.tools
    if not any(terminal.name in names for names in (tools.enabled, *tools.platforms.values())):
        return
    chosen = build_sandbox(loaded)
    if chosen is None:
        yield Finding(
            "warn",
            "tools.sandbox.mode is off: a terminal command may do everything that Hermes may, with its keys "
            "and its database; set it to bubblewrap",
        )
        return
    try:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(chosen.try_out(Path(folder)))
    except SandboxNotAvailable as error:
        yield Finding("fail", f"the sandbox of the terminal does not work: {error.detail}")
        return
    yield Finding(
        "ok", f"the sandbox of the terminal works; it has {'a' if chosen.network else 'no'} network"
    )
    web = loaded.config.platforms.web
    if chosen.network and web.enabled and not web.token:
        yield Finding(
            "warn",
            "tools.sandbox.network lets commands reach the chat page of this Hermes; set platforms.web.token",
        )


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
