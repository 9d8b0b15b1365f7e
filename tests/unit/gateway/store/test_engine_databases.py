"""SQLite only: databases of context engines go along with a backup, and come back with it."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.backup.create import Sources, make_backup
from gateway.backup.restore import restore
from gateway.cli.doctor_checks_host import store
from gateway.config.loader import LoadedConfig
from gateway.config.schema import Config
from gateway.errors import BackupUnusable
from gateway.platforms.base import Finding
from gateway.process_lock import hold_lock
from gateway.store.sqlite import file_swap as swap
from tests.support.backup_harness import StateDirectory, with_texts

NAME = "lcm.db"


def keep(path: Path, *words: str) -> sqlite3.Connection:
    """Open a database like an engine does, so that its last writes are still in the log file."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE IF NOT EXISTS words (word)")
    connection.executemany("INSERT INTO words VALUES (?)", [(word,) for word in words])
    return connection


def words_in(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [word for (word,) in connection.execute("SELECT word FROM words")]


def damage(path: Path) -> None:
    """Behind the beginning, which still says what it is."""
    content = path.read_bytes()
    path.write_bytes(content[:4096] + os.urandom(len(content) - 4096))


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    state = with_texts(tmp_path / "home", "old")
    keep(state.home / NAME, "old").close()
    return state


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    elsewhere = with_texts(tmp_path / "elsewhere", "new")
    keep(elsewhere.home / NAME, "new").close()
    return elsewhere.backup(tmp_path / "b.tar.gz").path


def findings(state: StateDirectory, path: Path) -> list[Finding]:
    looked_at = store(LoadedConfig(Config(), None, state.home), repair=False)
    return [finding for finding in looked_at if str(path) in finding.text]


def repacked(backup: Path, target: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None]) -> Path:
    """With another manifest, or other members."""
    with tarfile.open(backup) as old:
        members = {each.name: old.extractfile(each).read() for each in old}  # type: ignore[union-attr]
    manifest = json.loads(members.pop("hermes-backup.json"))
    change(manifest, members)
    with tarfile.open(target, "w:gz") as new:
        for name, content in {"hermes-backup.json": json.dumps(manifest).encode(), **members}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            new.addfile(entry, io.BytesIO(content))
    return target


def test_a_backup_holds_them_as_they_are_now(state: StateDirectory, tmp_path: Path) -> None:
    """Also what has not reached the file yet, while the engine has it open; and nothing that is not theirs."""
    (state.home / "empty.db").touch()
    (state.home / ".hidden.db").write_bytes((state.home / NAME).read_bytes())
    with closing(keep(state.home / NAME, "newest")):
        made = state.backup(tmp_path / "b.tar.gz")
    assert (list(made.manifest.engines), made.left_out) == ([NAME], ())
    with tarfile.open(made.path) as archive:
        assert archive.getnames() == ["hermes-backup.json", "state.db", f"engines/{NAME}"]
        archive.extract(f"engines/{NAME}", tmp_path, filter="data")
    assert words_in(tmp_path / "engines" / NAME) == ["old", "newest"]


def test_without_engines_an_earlier_hermes_can_read_it(tmp_path: Path) -> None:
    """Nothing in it is new then."""
    made = with_texts(tmp_path / "home", "old").backup(tmp_path / "b.tar.gz")
    with tarfile.open(made.path) as archive:
        file = archive.extractfile("hermes-backup.json")
        manifest = json.loads(file.read()) if file else {}
    assert manifest["format"] == 1 and "engines" not in manifest


def test_ours_is_not_one_of_them(tmp_path: Path) -> None:
    """Wherever it lies: under another name in the state directory, it is still only there once."""
    state = with_texts(tmp_path / "home", "old")
    (state.home / "state.db").rename(state.home / "mine.db")
    made = make_backup(Sources(state.home, state.home / "mine.db"), tmp_path / "b.tar.gz")
    assert not made.manifest.engines


def test_there_and_back(state: StateDirectory, backup: Path) -> None:
    """Old and new change places together; the file that was kept brings back what was kept with it."""
    restored = state.restore(backup)
    assert (state.texts(), words_in(state.home / NAME)) == (["new"], ["new"])
    assert restored.staged.engines == (NAME,)
    ours, theirs = restored.kept
    assert words_in(theirs) == ["old"]
    assert state.names() == {"state.db", NAME, ours.name, theirs.name}
    again = state.restore(ours)
    assert again.staged.engines == (NAME,)
    assert (state.texts(), words_in(state.home / NAME)) == (["old"], ["old"])


def test_one_that_the_backup_does_not_know_stays(state: StateDirectory, tmp_path: Path) -> None:
    """Nothing is there to take its place."""
    elsewhere = with_texts(tmp_path / "elsewhere", "new")
    state.restore(elsewhere.backup(tmp_path / "b.tar.gz").path)
    assert (state.texts(), words_in(state.home / NAME)) == (["new"], ["old"])


def test_a_log_of_the_old_one_is_not_taken_for_the_new_ones(state: StateDirectory, backup: Path) -> None:
    """An engine that was killed leaves its log and its shared memory behind."""
    for suffix in ("-wal", "-shm"):
        (state.home / f"{NAME}{suffix}").write_bytes(b"left behind" * 500)
    state.restore(backup)
    assert words_in(state.home / NAME) == ["new"]


def test_a_restore_that_was_interrupted_is_finished(state: StateDirectory, backup: Path) -> None:
    """The next start finishes a recorded swap, for the engine's database as for ours."""
    state.restore(backup)
    staged = swap.staging(state.home / NAME)
    staged.mkdir()
    with closing(keep(staged / NAME, "newest")) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    swap.staging(state.database).mkdir()
    swap.commit(state.database, swap.moves_for_database(state.home / NAME, staged / NAME, "later"))
    with hold_lock(state.home, state.database):
        assert words_in(state.home / NAME) == ["newest"]
    assert words_in(swap.aside(state.home / NAME, "later")) == ["new"]
    assert not staged.exists()


def test_a_damaged_one_costs_nobody_the_backup_of_ours(state: StateDirectory, tmp_path: Path) -> None:
    """It is left out, which is said; `hermes doctor` names it."""
    broken, nothing = state.home / "broken.db", state.home / "nothing.db"
    keep(broken, *("word" * 100 for _ in range(200))).close()
    assert next(each.level for each in findings(state, broken)) == "ok"
    damage(broken)
    nothing.write_text("no database")
    made = state.backup(tmp_path / "b.tar.gz")
    assert list(made.manifest.engines) == [NAME]
    assert [line.partition(": it is damaged (")[0] for line in made.left_out] == [str(broken), str(nothing)]
    (failed,) = findings(state, broken)
    assert failed.level == "fail" and "is damaged (" in failed.text
    (warned,) = findings(state, nothing)
    assert warned.level == "warn" and "is not a SQLite database" in warned.text


@pytest.mark.parametrize(
    "name", ["../evil.db", "state.db", ".hidden.db", "hermes.yaml", "a/b.db", "/evil.db"]
)
def test_a_backup_puts_databases_only_where_they_belong(
    state: StateDirectory, backup: Path, tmp_path: Path, name: str
) -> None:
    """The backup may be forged."""

    def rename(manifest: dict[str, Any], members: dict[str, bytes]) -> None:
        manifest["engines"] = {name: manifest["engines"][NAME]}
        members[f"engines/{name}"] = members.pop(f"engines/{NAME}")

    with pytest.raises(BackupUnusable):
        state.restore(repacked(backup, tmp_path / "forged.tar.gz", rename))
    assert (state.texts(), words_in(state.home / NAME)) == (["old"], ["old"])


def test_an_engines_never_takes_the_place_of_ours(state: StateDirectory, backup: Path) -> None:
    """The name of our database can equal that of an engine."""
    ours = state.database.rename(state.home / NAME)
    with pytest.raises(BackupUnusable, match=r"named lcm\.db, which is the name in `storage\.path`"):
        restore(backup, home=state.home, database=ours, workspaces=state.workspaces)
    assert state.names() == {NAME}


@pytest.mark.parametrize("how", ["missing", "unknown", "another"])
def test_a_backup_holds_what_it_says(state: StateDirectory, backup: Path, tmp_path: Path, how: str) -> None:
    """One too few, one too many, or not the one that was put in: nothing is touched."""

    def change(manifest: dict[str, Any], members: dict[str, bytes]) -> None:
        if how == "missing":
            del members[f"engines/{NAME}"]
        elif how == "unknown":
            members["engines/other.db"] = members[f"engines/{NAME}"]
        else:
            members[f"engines/{NAME}"] = members["state.db"]

    with pytest.raises(BackupUnusable):
        state.restore(repacked(backup, tmp_path / "forged.tar.gz", change))
    assert (state.texts(), words_in(state.home / NAME)) == (["old"], ["old"])
    assert state.names() == {"state.db", NAME}
