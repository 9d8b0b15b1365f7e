"""Replaces a database and its related files atomically, also across a power cut.

Several files are renamed, which no file system does at once. So a journal of the renames is written first, beside the
database. Without the journal nothing has happened; once it exists, the next process that holds the state directory
finishes the renames.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Move(NamedTuple):
    source: Path
    target: Path


_STAGING = ".restoring"
_KEPT_MARK = ".before-restore-"
_MOUNTS = Path("/proc/self/mountinfo")
_MOUNT_POINT = 4
"""The column of that table with the mount point."""


def journal(database: Path) -> Path:
    """Return the path of the journal."""
    return database.with_name(f"{database.name}.restore")


def is_unfinished(database: Path) -> bool:
    return journal(database).exists()


def is_mount_point(place: Path) -> bool:
    """Tell whether the path is a mount point, which cannot be renamed."""
    try:
        # Device numbers do not suffice: two volumes can share a disk, and layered file systems have several.
        return place.parent.resolve() / place.name in _mount_points()
    except FileNotFoundError:  # not on Linux
        return os.path.lexists(place) and place.lstat().st_dev != place.parent.stat().st_dev


def _mount_points() -> list[Path]:
    lines = _MOUNTS.read_bytes().splitlines()
    points = (line.split(b" ")[_MOUNT_POINT] for line in lines)
    return [
        Path(os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8)]), point)))
        for point in points
    ]


def staging(place: Path) -> Path:
    """Return the directory on the same disk that holds the new content of `place`."""
    return place.with_name(f".{place.name}{_STAGING}")


def aside(place: Path, stamp: str) -> Path:
    """Return the path under which the old content of `place` is kept."""
    return place.with_name(f"{place.name}{_KEPT_MARK}{stamp}")


def kept_suffix(name: str, place: Path) -> str | None:
    """Return the suffix of the files kept by the same restore; None if `name` is not an old content of `place`."""
    before = f"{place.name}{_KEPT_MARK}"
    return name.removeprefix(place.name) if name.startswith(before) else None


def moves_for_database(database: Path, new: Path, stamp: str) -> list[Move]:
    """Return the renames for a database, its log first: a log beside the wrong file would corrupt that file."""
    old = aside(database, stamp)
    moves = [Move(_beside(database, "-wal"), _beside(old, "-wal")), Move(database, old)]
    # SQLite creates this scratch file again; an old one beside the new database would mislead it.
    moves.insert(0, Move(_beside(database, "-shm"), new.with_name("old-shm")))
    return [*(move for move in moves if move.source.exists()), Move(new, database)]


def commit(database: Path, moves: Iterable[Move]) -> None:
    """Write the journal to disk. From then on the replacement is certain to happen."""
    draft = staging(database) / "moves.json"
    with draft.open("w", encoding="utf-8") as file:
        json.dump([[str(move.source), str(move.target)] for move in moves], file)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(journal(database))
    sync_directory(database.parent)


def finish(database: Path) -> None:
    """Do the renames of the journal that are left, and clean up."""
    if is_unfinished(database):
        listed = json.loads(journal(database).read_text(encoding="utf-8"))
        for move in [Move(Path(source), Path(target)) for source, target in listed]:
            # Done already if the source is gone or the target exists: the next move may have put the new file where
            # the old one was.
            if move.source.exists() and not move.target.exists():
                move.source.rename(move.target)
                sync_directory(move.target.parent)
        journal(database).unlink()
        sync_directory(database.parent)
        for folder in {Path(source).parent for source, _ in listed}:
            if folder.name.endswith(_STAGING):
                shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(staging(database), ignore_errors=True)


def sync_directory(directory: Path) -> None:
    """Write renames in the directory to disk."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _beside(database: Path, suffix: str) -> Path:
    return database.with_name(database.name + suffix)
