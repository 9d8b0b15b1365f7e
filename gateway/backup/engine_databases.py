"""Copies and checks of the databases that context engines keep in the state directory."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from agent.errors import StoreCorrupt
from gateway.store.errors import translated
from gateway.store.sqlite.backup import copied, create_private, opened

_SUFFIX = ".db"
_OWN_NAME = "state.db"
_HEADER = b"SQLite format 3\0"


def engine_databases(home: Path, own: Path) -> list[Path]:
    """Return the databases of engines that are not empty, sorted by name."""
    return [
        path
        for path in sorted(home.glob(f"*{_SUFFIX}"))
        if is_engine_name(path.name)
        and path.is_file()
        and path.stat().st_size
        and not (own.exists() and path.samefile(own))
    ]


def is_engine_name(name: str) -> bool:
    """Tell whether the name is a plain `*.db` file name other than `state.db`."""
    is_plain = Path(name).name == name and not name.startswith(".") and "\0" not in name
    return is_plain and name.endswith(_SUFFIX) and name != _OWN_NAME


def is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_HEADER)) == _HEADER


def copy_checked(source: Path, target: Path) -> str:
    """Copy all committed data while the engine may write. Returns the digest of the copy. Raises StoreCorrupt."""
    with translated():
        create_private(target)
        with opened(source, "ro") as original, opened(target, "rw") as copy:
            original.execute("BEGIN")
            original.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # starts the read transaction
            copied(original, copy)
    check(target)
    return digest_of(target)


def check(path: Path) -> None:
    """Read the whole database. Raises StoreCorrupt."""
    with translated(), opened(path, "ro") as connection:
        found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)")]
    if found != ["ok"]:
        raise StoreCorrupt(f"({'; '.join(found)})")


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def on_disk(path: Path) -> None:
    """Write the file to disk, so that it survives a power cut."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
