"""Restores a backup: replaces the present state completely or not at all, and keeps the old state aside."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from agent.errors import NewerSchema, StoreCorrupt, StoreError, StoreFull
from gateway.backup.engine_databases import check, copy_checked, is_engine_name, is_sqlite, on_disk
from gateway.backup.unpack import Unpacker
from gateway.errors import BackupUnusable, RestoreFailed, RestoreUnfinished
from gateway.process_lock import hold_lock, restore_instructions
from gateway.progress import report
from gateway.store.errors import as_store_error
from gateway.store.sqlite import file_swap as swap
from gateway.store.sqlite.backup import (
    DatabaseContents,
    checkpoint,
    copy_database,
    newest_message,
    prepare_copy,
    read_contents,
    verify,
)


@dataclass(frozen=True, slots=True)
class Staged:
    """A backup that is unpacked and verified beside the state that it will replace."""

    contents: DatabaseContents
    workspaces: bool = False
    has_configuration: bool = False
    left_out: int = 0
    """The number of links in the workspaces that may lead out of them."""
    engines: tuple[str, ...] = ()
    """The names of the databases of context engines."""
    newest: float | None = None
    """The time of the newest message."""
    replaces: tuple[DatabaseContents, float | None] | None = None
    """The contents of the present database and the time of its newest message; None if it cannot be read."""


@dataclass(frozen=True, slots=True)
class Restored:
    staged: Staged
    kept: tuple[Path, ...]
    """The paths under which the old state is kept."""


def restore(
    file: Path,
    *,
    home: Path,
    database: Path,
    workspaces: Path,
    agreed: Callable[[Staged], None] = lambda staged: None,
) -> Restored:
    """Restore a backup, or a single database such as one that an earlier restore kept aside. `agreed` gets the verified
    backup and raises to cancel the restore.

    Everything that can fail happens before the first change. Raises AlreadyRunning while a gateway uses the database.
    """
    with hold_lock(home, database):
        try:
            staged = _staged(file, home, database, workspaces)
            report("Checking the database", 1, 1)
            agreed(staged)
            engines = [home / name for name in staged.engines]
            return Restored(staged, _replace(database, engines, workspaces if staged.workspaces else None))
        except (StoreFull, OSError) as error:
            if isinstance(error, OSError) and swap.is_unfinished(database):
                raise RestoreUnfinished(restore_instructions(database, error)) from error
            if isinstance(error, OSError) and not isinstance(as_store_error(error), StoreFull):
                raise RestoreFailed(f"{error.filename or file}: {error.strerror}.") from error
            raise RestoreFailed(f"{database.parent} is full; free some space and try again.") from error
        finally:
            if not swap.is_unfinished(database):  # an unfinished restore needs the files
                _clear(home, database, workspaces)


def _staged(file: Path, home: Path, database: Path, workspaces: Path) -> Staged:
    _clear(home, database, workspaces)  # left by a restore that was killed
    plain = is_sqlite(file)
    if database.exists() and file.samefile(database):
        raise RestoreFailed("that is the present database.")
    new = _new_database(database)
    new.parent.mkdir(mode=0o700, parents=True)
    try:
        staged = (
            _copied(file, new, home, database) if plain else _unpacked(file, new, home, database, workspaces)
        )
    except NewerSchema as error:
        raise BackupUnusable(
            f"it was made by a newer Hermes; upgrade Hermes to restore it. {error.detail}"
        ) from error
    except StoreCorrupt as error:
        raise BackupUnusable(f"the database in it is damaged {error.detail}.") from error
    except StoreFull:
        raise
    except StoreError as error:
        raise BackupUnusable(error.detail) from error
    prepare_copy(new)
    return replace(staged, newest=newest_message(new), replaces=read_contents(database))


def _copied(file: Path, new: Path, home: Path, database: Path) -> Staged:
    """Copy a database and the databases of context engines that the same restore kept aside."""
    contents = verify(new, copy_database(file, new))
    ending = swap.kept_suffix(file.name, database)
    kept = home.glob(f"*{ending}") if ending else ()
    engines = {name: path for path in kept if is_engine_name(name := path.name.removesuffix(ending or ""))}
    for name, path in engines.items():
        target = _staging_path(home / name, database)
        copy_checked(path, target)
        on_disk(target)
    return Staged(contents, engines=tuple(engines))


def _unpacked(file: Path, new: Path, home: Path, database: Path, workspaces: Path) -> Staged:
    with Unpacker.of(file) as backup:
        manifest = backup.manifest
        folder = swap.staging(workspaces) if manifest.workspaces else None
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True)
        engines = {name: _staging_path(home / name, database) for name in manifest.engines}
        backup.unpack(database=new, engines=engines, workspaces=folder)
    for engine in engines.values():
        check(engine)
        on_disk(engine)
    if folder is not None:
        os.sync()  # one call for many small files is faster than fsync for each
    contents = verify(new, manifest.contents)
    return Staged(
        contents, manifest.workspaces, backup.has_configuration, len(backup.left_out), tuple(engines)
    )


def _replace(database: Path, engines: Sequence[Path], workspaces: Path | None) -> tuple[Path, ...]:
    databases = [database, *engines]
    places = databases if workspaces is None else [*databases, workspaces]
    _refuse_mounted(places)
    stamp = _new_stamp(places)
    moves: list[swap.Move] = []
    for each in databases:
        if each.exists():
            checkpoint(each)
        moves += swap.moves_for_database(each, _new_database(each), stamp)
    if workspaces is not None:
        if workspaces.exists():
            moves.append(swap.Move(workspaces, swap.aside(workspaces, stamp)))
        moves.append(swap.Move(swap.staging(workspaces), workspaces))
    swap.commit(database, moves)
    swap.finish(database)
    return tuple(kept for place in places if (kept := swap.aside(place, stamp)).exists())


def _refuse_mounted(places: Sequence[Path]) -> None:
    for place in places:
        if swap.is_mount_point(place):
            raise RestoreFailed(
                f"{place} is a mount point and cannot be replaced. Unmount it for the restore and copy the files to it "
                f"afterwards, or mount {place.parent} as a whole instead."
            )


def _new_stamp(places: Sequence[Path]) -> str:
    """Return a time stamp that no earlier restore has used."""
    now = f"{datetime.now().astimezone():%Y-%m-%d-%H%M%S}"
    stamps = itertools.chain([now], (f"{now}-{number}" for number in itertools.count(2)))
    return next(stamp for stamp in stamps if not any(swap.aside(place, stamp).exists() for place in places))


def _new_database(database: Path) -> Path:
    return swap.staging(database) / database.name


def _staging_path(engine: Path, database: Path) -> Path:
    if engine.resolve() == database.resolve():
        raise BackupUnusable(
            f"it contains a database of a context engine named {engine.name}, which is the name in `storage.path`."
        )
    new = _new_database(engine)
    new.parent.mkdir(mode=0o700)
    return new


def _clear(home: Path, *places: Path) -> None:
    """Delete staging directories, also those of context engines."""
    of_engines = home.glob(swap.staging(Path("*.db")).name)
    for folder in (*of_engines, *map(swap.staging, places)):
        shutil.rmtree(folder, ignore_errors=True)
