"""Migrations as files: `migrations/sqlite` and `migrations/postgres` have the same numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from agent.errors import NewerSchema, StoreError

MIGRATIONS = Path(__file__).resolve().parents[3] / "migrations"
"""The folder beside `gateway/`, in the source tree and in an installed wheel."""

_FILE_NAME = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str


def read_migrations(directory: Path) -> list[Migration]:
    """Return all migrations in order. Raises StoreError if a number is missing or occurs twice."""
    found = [
        Migration(int(match[1]), match[2], path.read_text(encoding="utf-8"))
        for path in sorted(directory.glob("*.sql"))
        if (match := _FILE_NAME.fullmatch(path.name))
    ]
    if not found or [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise StoreError(f"The migrations in {directory} are not complete; install Hermes again.")
    return found


def refuse_newer(version: int, known: int) -> None:
    if version > known:
        raise NewerSchema(f"Its schema is {version}, this Hermes knows {known}.")


def refuse_older(version: int, known: int) -> None:
    """Refuse a database that is not up to date, for readers, which cannot migrate."""
    if version < known:
        raise StoreError(
            "The database is from an older Hermes; start `hermes run` once to bring it up to date."
        )
