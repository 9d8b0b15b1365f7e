"""`hermes restore`: a backup takes the place of what is there, and that is kept aside. All of it or nothing."""

from __future__ import annotations

import itertools
import os
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from agent.errors import NewerSchema, StoreCorrupt, StoreError, StoreFull
from gateway.backups.unpacking import Unpacker
from gateway.errors import BackupUnusable, RestoreFailed, RestoreUnfinished
from gateway.state_lock import only_process, still_to_do
from gateway.store import swap
from gateway.store.backup import Contents, bring_up_to_date, copy_database, take_in_log, verify
from gateway.store.errors import as_store_error

_PLAIN_DATABASE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class Staged:
    """A backup, unpacked and proven beside what it is to replace."""

    contents: Contents
    workspaces: bool = False
    has_configuration: bool = False
    left_out: int = 0
    """Links in the workspaces that may lead out of them."""


@dataclass(frozen=True, slots=True)
class Restored:
    staged: Staged
    kept: tuple[Path, ...]
    """Where that which was there before is now."""


def restore(file: Path, *, home: Path, database: Path, workspaces: Path) -> Restored:
    """Also takes a database by itself, such as the one that an earlier restore has kept aside.

    All that can fail comes before anything is touched. Raises AlreadyRunning while a gateway uses the database.
    """
    with only_process(home, database):
        try:
            staged = _staged(file, database, workspaces)
            return Restored(staged, _take_place(database, workspaces if staged.workspaces else None))
        except StoreFull as error:
            raise RestoreFailed(_full(database)) from error
        except OSError as error:
            if swap.is_unfinished(database):
                raise RestoreUnfinished(still_to_do(database, error)) from error
            full = isinstance(as_store_error(error), StoreFull)
            raise RestoreFailed(
                _full(database) if full else f"{error.filename or file}: {error.strerror}."
            ) from error
        finally:
            if not swap.is_unfinished(database):  # else it will be needed
                _clear(database, workspaces)


def _staged(file: Path, database: Path, workspaces: Path) -> Staged:
    _clear(database, workspaces)  # one that was killed may have left something
    with file.open("rb") as opened:
        plain = opened.read(len(_PLAIN_DATABASE)) == _PLAIN_DATABASE
    if database.exists() and file.samefile(database):
        raise RestoreFailed("that is the database in use.")
    new = _new_database(database)
    new.parent.mkdir(mode=0o700, parents=True)
    try:
        staged = _copied(file, new) if plain else _unpacked(file, new, workspaces)
    except NewerSchema as error:
        raise BackupUnusable(
            f"it is from a newer Hermes; upgrade Hermes to restore it. {error.detail}"
        ) from error
    except StoreCorrupt as error:
        raise BackupUnusable(f"the database in it is damaged {error.detail}.") from error
    except StoreFull:
        raise
    except StoreError as error:
        raise BackupUnusable(error.detail) from error
    bring_up_to_date(new)
    return staged


def _copied(file: Path, new: Path) -> Staged:
    return Staged(verify(new, copy_database(file, new)))


def _unpacked(file: Path, new: Path, workspaces: Path) -> Staged:
    with Unpacker.of(file) as backup:
        manifest = backup.manifest
        folder = swap.staging(workspaces) if manifest.workspaces else None
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True)
        backup.unpack(database=new, workspaces=folder)
    if folder is not None:
        os.sync()  # many small files: all at once costs less than each by itself
    contents = verify(new, manifest.contents)
    return Staged(contents, manifest.workspaces, backup.has_configuration, len(backup.left_out))


def _take_place(database: Path, workspaces: Path | None) -> tuple[Path, ...]:
    _refuse_mounted(database, workspaces)
    stamp = _unused_stamp(database, workspaces)
    if database.exists():
        take_in_log(database)
    moves = swap.moves_for_database(database, _new_database(database), stamp)
    if workspaces is not None:
        if workspaces.exists():
            moves.append(swap.Move(workspaces, swap.aside(workspaces, stamp)))
        moves.append(swap.Move(swap.staging(workspaces), workspaces))
    swap.commit(database, moves)
    swap.finish(database)
    places = [database] if workspaces is None else [database, workspaces]
    return tuple(kept for place in places if (kept := swap.aside(place, stamp)).exists())


def _refuse_mounted(database: Path, workspaces: Path | None) -> None:
    for place in (database, workspaces):
        if place is not None and swap.is_fixed(place):
            raise RestoreFailed(
                f"{place} is mounted by itself, so nothing can be put in its place. Unmount it for the restore and "
                f"copy the files to it afterwards, or mount {place.parent} as a whole instead."
            )


def _unused_stamp(database: Path, workspaces: Path | None) -> str:
    """What is kept from one restore is never in the way of the next."""
    now = f"{datetime.now().astimezone():%Y-%m-%d-%H%M%S}"
    places = [database] if workspaces is None else [database, workspaces]
    stamps = itertools.chain([now], (f"{now}-{number}" for number in itertools.count(2)))
    return next(stamp for stamp in stamps if not any(swap.aside(place, stamp).exists() for place in places))


def _new_database(database: Path) -> Path:
    return swap.staging(database) / database.name


def _clear(*places: Path) -> None:
    for place in places:
        shutil.rmtree(swap.staging(place), ignore_errors=True)


def _full(database: Path) -> str:
    return f"there is no room left in {database.parent}; free some and try again."
