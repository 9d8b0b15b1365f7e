"""Puts a database, and what belongs to it, in the place of another: all of it or nothing, whenever the power goes.

Several files change places, and no file system does that at once. So what is to be done is written down first, in a
file beside the database. Before that file is there, nothing has happened; from then on the change counts, and whoever
holds the state directory next carries it out.
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
_KEPT = ".before-restore-"
_MOUNTS = Path("/proc/self/mountinfo")
_MOUNT_POINT = 4
"""The column of that table."""


def journal(database: Path) -> Path:
    """Where what is to be done is written down."""
    return database.with_name(f"{database.name}.restore")


def is_unfinished(database: Path) -> bool:
    return journal(database).exists()


def is_fixed(place: Path) -> bool:
    """Something is mounted there, so it cannot be given another name, however many rights one has."""
    try:
        # Numbers of devices are not enough: two volumes may lie on one disk, and layered file systems have several.
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
    """A directory on the same disk, for what is to stand at `place`."""
    return place.with_name(f".{place.name}{_STAGING}")


def aside(place: Path, stamp: str) -> Path:
    """Where that which stands at `place` is kept."""
    return place.with_name(f"{place.name}{_KEPT}{stamp}")


def kept_under(name: str, place: Path) -> str | None:
    """What was added to the names of all that was kept aside together; None if this was never at `place`."""
    before = f"{place.name}{_KEPT}"
    return name.removeprefix(place.name) if name.startswith(before) else None


def moves_for_database(database: Path, new: Path, stamp: str) -> list[Move]:
    """The log goes first and under the name that SQLite looks for: a log beside the wrong file would ruin it."""
    old = aside(database, stamp)
    moves = [Move(_beside(database, "-wal"), _beside(old, "-wal")), Move(database, old)]
    # A scratch file that SQLite makes anew, and a wrong one confuses it.
    moves.insert(0, Move(_beside(database, "-shm"), new.with_name("old-shm")))
    return [*(move for move in moves if move.source.exists()), Move(new, database)]


def commit(database: Path, moves: Iterable[Move]) -> None:
    """When this returns it has happened, even if the machine stops in the next instant."""
    draft = staging(database) / "moves.json"
    with draft.open("w", encoding="utf-8") as file:
        json.dump([[str(move.source), str(move.target)] for move in moves], file)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(journal(database))
    sync_directory(database.parent)


def finish(database: Path) -> None:
    """Carries out what was committed, from wherever it stopped, and clears up."""
    if is_unfinished(database):
        listed = json.loads(journal(database).read_text(encoding="utf-8"))
        for move in [Move(Path(source), Path(target)) for source, target in listed]:
            # Done before if the source is gone, or if something stands at the target: the next move may have put
            # the new file where the old one was.
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
    """A new name is on the disk when this returns."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _beside(database: Path, suffix: str) -> Path:
    return database.with_name(database.name + suffix)
