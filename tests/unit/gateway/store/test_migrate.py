"""SQLite only: every road to the newest schema ends at the same one.

`schemas/NNNN.sql` is the schema as migration NNNN left it on the day it was released. A new migration brings its own
with it: `python -m tests.support.schema_dump`.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent.errors import StoreError
from gateway.store.sql.migrations import Migration
from gateway.store.sqlite.migrate import load_migrations, migrate, schema_version
from tests.support.schema_dump import dump, frozen, migrated, postgres_columns, sqlite_columns

VERSIONS = range(1, len(load_migrations()) + 1)
ROOT = Path(__file__).parents[4]


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        yield connection


@pytest.mark.parametrize("version", VERSIONS)
def test_a_released_migration_is_never_edited(database: sqlite3.Connection, version: int) -> None:
    """Built from nothing, a schema is today what it was when it was released."""
    assert migrated(database, version) == frozen(version).read_text(encoding="utf-8")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_earlier_schema_arrives_at_the_newest(database: sqlite3.Connection, version: int) -> None:
    """A database of any release, brought up to date, has the schema of one built from nothing."""
    database.executescript(frozen(version).read_text(encoding="utf-8"))
    migrate(database, load_migrations())
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        assert dump(database) == migrated(fresh, len(VERSIONS))


def test_migrating_again_changes_nothing(database: sqlite3.Connection) -> None:
    """Each migration is applied once and recorded once."""
    migrate(database, load_migrations())
    before = dump(database), database.execute("SELECT * FROM schema_migrations").fetchall()
    migrate(database, load_migrations())
    assert (dump(database), database.execute("SELECT * FROM schema_migrations").fetchall()) == before


def test_a_migration_that_fails_leaves_no_trace(database: sqlite3.Connection) -> None:
    """Schema, rows and record come together or not at all, and foreign keys are on again."""
    migrate(database, load_migrations())
    before = dump(database)
    half = "CREATE TABLE half (x); INSERT INTO facts VALUES (1, 'f', 'p', 't', 0, 0); SELECT nonsense;"
    with pytest.raises(sqlite3.OperationalError, match="nonsense"):
        migrate(database, [*load_migrations(), Migration(len(VERSIONS) + 1, "half", half)])
    assert dump(database) == before
    assert database.execute("SELECT count(*) FROM facts").fetchone() == (0,)
    assert database.execute("PRAGMA foreign_keys").fetchone() == (1,)


def test_a_migration_that_breaks_a_reference_is_refused(database: sqlite3.Connection) -> None:
    """Foreign keys rest during a migration, and are checked before it counts."""
    migrate(database, load_migrations())
    orphan = "INSERT INTO model_calls VALUES (1, 'no such session', 'turn', 'm', 0, 0, 0, 0, NULL, 0, '');"
    with pytest.raises(StoreError, match="dangling reference in `model_calls`"):
        migrate(database, [*load_migrations(), Migration(len(VERSIONS) + 1, "orphan", orphan)])
    assert schema_version(database) == len(VERSIONS)


def test_a_trigger_in_a_migration_stays_whole(database: sqlite3.Connection) -> None:
    """Statements end where SQLite says, not at every semicolon."""
    script = """
        CREATE TABLE t (x); -- a comment; with a semicolon
        CREATE TRIGGER twice AFTER INSERT ON t BEGIN
            UPDATE t SET x = x * 2;
            UPDATE t SET x = x + 1;
        END;
        INSERT INTO t VALUES (10)
    """
    migrate(database, load_migrations())
    migrate(database, [*load_migrations(), Migration(len(VERSIONS) + 1, "trigger", script)])
    assert database.execute("SELECT x FROM t").fetchone() == (21,)


def test_a_gap_in_the_numbers_is_noticed(tmp_path: Path) -> None:
    """An incomplete installation does not go on to half a schema."""
    (tmp_path / "0001_one.sql").write_text("SELECT 1;")
    (tmp_path / "0003_three.sql").write_text("SELECT 1;")
    with pytest.raises(StoreError, match="install Hermes again"):
        load_migrations(tmp_path)


def test_an_installed_wheel_brings_its_migrations(tmp_path: Path) -> None:
    """A store opens from a wheel, far from the source tree."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    program = (
        "import asyncio, gateway.store.sqlite.store as s, pathlib;"
        "asyncio.run(s.SqliteStore.open(pathlib.Path('state.db')));"
        "print(s.__file__)"
    )
    ran = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert str(installed) in ran.stdout
    with closing(sqlite3.connect(tmp_path / "state.db")) as made:
        assert schema_version(made) == len(VERSIONS)


def test_both_databases_have_the_same_columns(database: sqlite3.Connection, postgres_url: str) -> None:
    """One text of SQL runs on both, and a store can move from one to the other."""
    from gateway.store.postgres.connection import PostgresConnection, connect
    from gateway.store.postgres.migrate import load_migrations as load_for_postgres

    assert [(m.version, m.name) for m in load_migrations()] == [
        (m.version, m.name) for m in load_for_postgres()
    ]
    migrate(database, load_migrations())
    with closing(connect(postgres_url)) as raw:
        theirs = postgres_columns(PostgresConnection(raw))
    ours = sqlite_columns(database)
    assert ours.keys() == theirs.keys()
    for table, columns in ours.items():
        assert columns == theirs[table], table
