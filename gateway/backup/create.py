"""`hermes backup`: the copy, the proof that it is whole, and only then the name under which it can be found."""

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
from gateway.backup.archive import CONFIGURATION, ENGINES, Manifest, Packer
from gateway.backup.engine_databases import copy_checked, digest_of, engine_databases
from gateway.backup.unpack import Unpacker
from gateway.errors import BackupFailed
from gateway.store.errors import as_store_error
from gateway.store.sqlite.backup import Contents, copy_database, verify
from gateway.store.sqlite.file_swap import sync_directory

SUFFIX = ".tar.gz"


@dataclass(frozen=True, slots=True)
class Sources:
    """What a backup is made of."""

    home: Path
    database: Path
    workspaces: Path | None = None
    configuration: str | None = None
    """The text of hermes.yaml."""


@dataclass(frozen=True, slots=True)
class Made:
    path: Path
    bytes: int
    database_bytes: int
    contents: Contents
    files: int
    """Of the workspaces."""
    left_out: tuple[str, ...]
    """What of the workspaces and of engines could not be read, and why."""
    seconds: float
    engines: tuple[str, ...] = ()
    """The names of their databases."""


def backup_directory(home: Path) -> Path:
    """Where backups lie that nobody named a place for."""
    return home / "backups"


def default_name() -> str:
    return f"hermes-{datetime.now().astimezone():%Y-%m-%d-%H%M%S}{SUFFIX}"


def latest_backup(home: Path) -> Path | None:
    """The one made last in the usual place. The names carry the time."""
    return max(backup_directory(home).glob(f"hermes-*{SUFFIX}"), default=None)


def make_backup(sources: Sources, target: Path, *, overwrite: bool = False) -> Made:
    """A verified backup at `target`, or a BackupFailed and nothing."""
    began = time.monotonic()
    try:
        if not sources.database.exists():
            raise BackupFailed("nothing is stored yet.")
        _refuse_existing(target, overwrite=overwrite)
        with _workroom(sources.home, target) as room:
            manifest = _copied(sources, room / "state.db")
            # Later than ours: an engine that knows more than we do copes, and one that knows less has lost something.
            engines, damaged = _engines_copied(sources, room / ENGINES)
            manifest = replace(manifest, engines=engines)
            draft = room / "draft"
            files, left_out = _packed(sources, manifest, room, draft)
            with Unpacker.of(draft) as written:
                written.unpack()  # as it lies on the disk, to the last byte
            size = draft.stat().st_size
            _publish(draft, target, overwrite=overwrite)
    except OSError as error:
        raise BackupFailed(_told(error, target)) from error
    except StoreError as error:
        raise BackupFailed(_full(target) if isinstance(error, StoreFull) else str(error)) from error
    took = time.monotonic() - began
    return Made(
        target,
        size,
        manifest.database_bytes,
        manifest.contents,
        files,
        (*damaged, *left_out),
        took,
        tuple(engines),
    )


def _copied(sources: Sources, copy: Path) -> Manifest:
    held = copy_database(sources.database, copy)
    verify(copy, held)
    return Manifest(
        version("hermes-gateway"), held, copy.stat().st_size, digest_of(copy), sources.workspaces is not None
    )


def _engines_copied(sources: Sources, folder: Path) -> tuple[dict[str, str], list[str]]:
    """Their digests, and what is wrong with those that are not in it: a damaged one must not cost the owner ours."""
    folder.mkdir(mode=0o700)
    digests: dict[str, str] = {}
    damaged: list[str] = []
    for path in engine_databases(sources.home, sources.database):
        try:
            digests[path.name] = copy_checked(path, folder / path.name)
        except (StoreCorrupt, SearchIndexDamaged) as error:
            damaged.append(f"{path}: it is damaged {error.detail}")
    return digests, damaged


def _packed(sources: Sources, manifest: Manifest, room: Path, draft: Path) -> tuple[int, list[str]]:
    files = 0
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        with Packer.into(file) as packer:
            packer.add_manifest(manifest)
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
    _refuse_existing(target, overwrite=overwrite)  # somebody may have put it there meanwhile
    draft.rename(target)
    sync_directory(target.parent)


def _refuse_existing(target: Path, *, overwrite: bool) -> None:
    if target.exists() and not overwrite:
        raise BackupFailed(f"{target} exists; --force overwrites it.")


@contextmanager
def _workroom(home: Path, target: Path) -> Iterator[Path]:
    """A directory beside the target, so that the disk that must have the room has it and the last step is a rename.

    Only one backup of a state directory is made at a time, so what lies in the room was left by one that was killed.
    """
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        lock = FileLock(home / "backup.lock", mode=0o600).acquire(blocking=False)
    except Timeout:
        raise BackupFailed("another backup is being made; wait for it.") from None
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


def _told(error: OSError, target: Path) -> str:
    if isinstance(as_store_error(error), StoreFull):
        return _full(target)
    return f"{error.filename or target}: {error.strerror}."


def _full(target: Path) -> str:
    return f"there is no room left in {target.parent}; free some, or name a place on another disk."
