"""Creates a backup: copies, verifies, and only then publishes the file under its name."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock, Timeout

from agent.errors import SearchIndexDamaged, StoreCorrupt, StoreError, StoreFull
from gateway.backup.archive import CONFIGURATION, ENGINES, MANIFEST, Manifest, Packer
from gateway.backup.engine_databases import copy_checked, digest_of, engine_databases
from gateway.backup.unpack import Unpacker
from gateway.errors import BackupFailed
from gateway.store.errors import as_store_error
from gateway.store.sqlite.backup import copy_database, verify
from gateway.store.sqlite.file_swap import sync_directory

SUFFIX = ".tar.gz"


@dataclass(frozen=True, slots=True)
class Sources:
    """The inputs of a backup."""

    home: Path
    database: Path
    workspaces: Path | None = None
    configuration: str | None = None
    """The text of hermes.yaml."""


@dataclass(frozen=True, slots=True)
class Made:
    path: Path
    bytes: int
    manifest: Manifest
    files: int
    """The number of files of the workspaces."""
    left_out: tuple[str, ...]
    """Files and engine databases that could not be read, with the reason."""
    seconds: float


def backup_directory(home: Path) -> Path:
    """Return the default directory of backups."""
    return home / "backups"


def default_name() -> str:
    return f"hermes-{datetime.now().astimezone():%Y-%m-%d-%H%M%S}{SUFFIX}"


def latest_backup(home: Path) -> Path | None:
    """Return the latest backup in the default directory; the file names contain the time."""
    return max(backup_directory(home).glob(f"hermes-*{SUFFIX}"), default=None)


def make_backup(sources: Sources, target: Path, *, overwrite: bool = False) -> Made:
    """Write a verified backup to `target`. Raises BackupFailed and leaves no file otherwise."""
    began = time.monotonic()
    try:
        if not sources.database.exists():
            raise BackupFailed("nothing is stored yet.")
        _refuse_existing(target, overwrite=overwrite)
        with _working_directory(sources.home, target) as room:
            manifest = _copy(sources, room / "state.db")
            # After the main database: an engine can handle missing messages, but not messages that it has never seen.
            engines, damaged = _copy_engines(sources, room / ENGINES)
            manifest = replace(manifest, engines=engines)
            draft = room / "draft"
            files, left_out = _pack(sources, manifest, room, draft)
            with Unpacker.of(draft) as written:
                written.unpack()  # read back every byte from the disk
            size = draft.stat().st_size
            _publish(draft, target, overwrite=overwrite)
    except (OSError, StoreError) as error:
        raise BackupFailed(_explain(error, target)) from error
    took = time.monotonic() - began
    return Made(target, size, manifest, files, (*damaged, *left_out), took)


def _copy(sources: Sources, copy: Path) -> Manifest:
    held = copy_database(sources.database, copy)
    verify(copy, held)
    return Manifest(
        version("hermes-gateway"), held, copy.stat().st_size, digest_of(copy), sources.workspaces is not None
    )


def _copy_engines(sources: Sources, folder: Path) -> tuple[dict[str, str], list[str]]:
    """Return digests of the copies, and the damaged databases, which are left out: the main database matters more."""
    folder.mkdir(mode=0o700)
    digests: dict[str, str] = {}
    damaged: list[str] = []
    for path in engine_databases(sources.home, sources.database):
        try:
            digests[path.name] = copy_checked(path, folder / path.name)
        except (StoreCorrupt, SearchIndexDamaged) as error:
            damaged.append(f"{path}: it is damaged {error.detail}")
    return digests, damaged


def _pack(sources: Sources, manifest: Manifest, room: Path, draft: Path) -> tuple[int, list[str]]:
    files = 0
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        with Packer.into(file) as packer:
            packer.add_text(MANIFEST, manifest.as_json())
            packer.add_database(room / "state.db")
            for name in manifest.engines:
                packer.add_database(room / ENGINES / name, f"{ENGINES}/{name}")
            if sources.configuration is not None:
                packer.add_text(CONFIGURATION, sources.configuration)
            if sources.workspaces is not None:
                files = packer.add_workspaces(sources.workspaces)
        file.flush()
        os.fsync(file.fileno())
    return files, packer.left_out


def _publish(draft: Path, target: Path, *, overwrite: bool) -> None:
    _refuse_existing(target, overwrite=overwrite)  # it may have been created meanwhile
    draft.rename(target)
    sync_directory(target.parent)


def _refuse_existing(target: Path, *, overwrite: bool) -> None:
    if target.exists() and not overwrite:
        raise BackupFailed(f"{target} exists; --force overwrites it.")


@contextmanager
def _working_directory(home: Path, target: Path) -> Iterator[Path]:
    """Create a working directory beside the target, on the same disk, so that the last step is a rename.

    Only one backup of a state directory is made at a time, so an existing working directory is left from a killed one.
    """
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        lock = FileLock(home / "backup.lock", mode=0o600).acquire(blocking=False)
    except Timeout:
        raise BackupFailed("another backup is running; wait for it.") from None
    with lock:
        whose = hashlib.sha256(str(home).encode()).hexdigest()[:12]
        room = target.parent / f".hermes-backup-{whose}"
        with suppress(FileNotFoundError):
            shutil.rmtree(room)
        room.mkdir(mode=0o700)
        try:
            yield room
        finally:
            shutil.rmtree(room, ignore_errors=True)


def _explain(error: OSError | StoreError, target: Path) -> str:
    known = as_store_error(error) if isinstance(error, OSError) else error
    if isinstance(known, StoreFull):
        return f"{target.parent} is full; free some space, or choose a path on another disk."
    return f"{error.filename or target}: {error.strerror}." if isinstance(error, OSError) else str(error)
