"""SQLite only: a backup made while others write, proven before it gets its name."""

from __future__ import annotations

import asyncio
import io
import os
import sqlite3
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from filelock import FileLock

from agent.errors import StoreCorrupt
from agent.messages import Message
from agent.store import Address
from gateway.backup.archive import Packer
from gateway.errors import BackupFailed
from gateway.store.sqlite.backup import STEP_PAGES, copy_database, verify
from gateway.store.sqlite.store import SqliteStore
from tests.support.backup_harness import StateDirectory, texts_in, with_texts

PAGE = 4096


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return with_texts(tmp_path / "home", "first", "second")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "backups" / "one.tar.gz"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(directory)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root in a real system can mount a small file system")
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


def unpacked(backup: Path, directory: Path) -> Path:
    """The database in it, taken out with nothing of ours."""
    with tarfile.open(backup) as archive:
        archive.extract("state.db", directory, filter="data")
    return directory / "state.db"


def test_a_backup_holds_everything(state: StateDirectory, target: Path, tmp_path: Path) -> None:
    """The backup is an ordinary archive with an ordinary database, readable only by the user."""
    made = state.backup(target)
    assert texts_in(unpacked(target, tmp_path)) == ["first", "second"]
    assert (made.manifest.contents.conversations, made.manifest.contents.messages) == (1, 2)
    assert (made.path, made.bytes) == (target, target.stat().st_size)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["one.tar.gz"]
    assert state.texts() == ["first", "second"]


async def test_made_while_others_write(path: Path, tmp_path: Path) -> None:
    """It arrives, though the database changes between any two of its steps, and holds a moment without gaps."""
    store = await SqliteStore.open(path)
    live = (await store.sessions.open_conversation(Address("web", "1"), person="ada")).live_session_id
    await store.sessions.append(
        live, [Message(role="tool", content="x" * (STEP_PAGES * PAGE)) for _ in range(12)]
    )
    done = asyncio.Event()
    said = 0

    async def talk() -> None:
        nonlocal said
        while not done.is_set():
            await store.sessions.append(live, [Message(role="user", content=str(said))])
            said += 1

    talking = asyncio.create_task(talk())
    async with asyncio.timeout(60):
        before = said
        held = await asyncio.to_thread(copy_database, path, tmp_path / "copy.db")
    after, _ = said, done.set()
    await talking
    await store.close()
    texts = (await asyncio.to_thread(texts_in, tmp_path / "copy.db"))[12:]
    assert texts == [str(number) for number in range(len(texts))]
    assert before <= len(texts) == held.messages - 12 <= after


def test_never_in_the_place_of_another(state: StateDirectory, target: Path) -> None:
    """Unless that is asked for."""
    state.backup(target)
    before = target.read_bytes()
    with pytest.raises(BackupFailed, match="exists; --force overwrites it"):
        state.backup(target)
    assert target.read_bytes() == before
    target.write_bytes(b"something else")
    state.backup(target, overwrite=True)
    assert tarfile.is_tarfile(target)


def test_nothing_stored_yet(tmp_path: Path) -> None:
    """An empty backup would be worse than none."""
    with pytest.raises(BackupFailed, match="nothing is stored yet"):
        StateDirectory(tmp_path / "home").backup(tmp_path / "b.tar.gz")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk(state: StateDirectory, small_disk: Path) -> None:
    """The error names the full disk, and no file is left there."""
    with closing(sqlite3.connect(state.database)) as plain:
        plain.execute("CREATE TABLE padding AS SELECT randomblob(2000000) AS bytes")
        plain.commit()
    with pytest.raises(BackupFailed, match=f"{small_disk} is full"):
        state.backup(small_disk / "b.tar.gz")
    assert list(small_disk.iterdir()) == []


def test_a_place_that_is_none(state: StateDirectory, tmp_path: Path) -> None:
    """With the path, and what is wrong with it."""
    (tmp_path / "file").touch()
    with pytest.raises(BackupFailed, match=r"file.*: (Not a directory|File exists)"):
        state.backup(tmp_path / "file" / "b.tar.gz")


def test_a_damaged_database_is_not_backed_up(state: StateDirectory, target: Path) -> None:
    """A bad backup would replace the last good one."""
    with closing(sqlite3.connect(state.database)) as plain:
        plain.execute("INSERT INTO facts VALUES (1, 'fact_1', 'ada', 'likes tea', 0, 0)")
        plain.execute("PRAGMA writable_schema = ON")
        # All rows can be read and all references are right; only a full check sees that an index does not fit.
        wrong = "CREATE INDEX facts_person ON facts (text)"
        plain.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'facts_person'", (wrong,))
        plain.commit()
    with pytest.raises(BackupFailed, match="The database file is damaged"):
        state.backup(target)
    assert list(target.parent.iterdir()) == []


def test_a_copy_is_looked_over(state: StateDirectory, tmp_path: Path) -> None:
    """References that lead nowhere, and anything missing, are found."""
    copy = tmp_path / "copy.db"
    held = copy_database(state.database, copy)
    assert verify(copy, held) == held
    with pytest.raises(StoreCorrupt, match="it contains 2 messages instead of 3"):
        verify(copy, held._replace(messages=3))
    with closing(sqlite3.connect(copy)) as plain:
        plain.execute("DELETE FROM sessions")
        plain.commit()
    with pytest.raises(StoreCorrupt, match="refers to a missing row"):
        verify(copy, held)


def test_one_at_a_time(state: StateDirectory, target: Path) -> None:
    """The second would clear away what the first is working on."""
    with (
        FileLock(state.home / "backup.lock"),
        pytest.raises(BackupFailed, match="another backup is running"),
    ):
        state.backup(target)
    state.backup(target)


def test_workspaces_come_along_if_asked_for(state: StateDirectory, target: Path, tmp_path: Path) -> None:
    """Files, folders and links are included; a pipe does not block the backup."""
    folder = state.workspaces / "conv_1" / "deep"
    folder.mkdir(parents=True)
    (folder / "report.txt").write_text("figures")
    (folder / "again.txt").hardlink_to(folder / "report.txt")
    (folder / "link").symlink_to("report.txt")
    os.mkfifo(folder / "pipe")
    os.mknod(folder / "socket", stat.S_IFSOCK)
    assert state.backup(tmp_path / "without.tar.gz").files == 0
    assert state.backup(target, workspaces=True).files == 2
    with tarfile.open(target) as archive:
        members = {member.name: member for member in archive}
        assert archive.extractfile("workspaces/conv_1/deep/again.txt").read() == b"figures"  # type: ignore[union-attr]
    assert members["workspaces/conv_1/deep/link"].linkname == "report.txt"
    assert not {"workspaces/conv_1/deep/pipe", "workspaces/conv_1/deep/socket"} & members.keys()


def test_a_file_that_is_shorter_than_it_said(tmp_path: Path) -> None:
    """A file that shrinks while it is read leaves the archive readable, as files in /sys do."""
    folder = Path("/sys/kernel/mm/transparent_hugepage")
    if not (folder / "enabled").exists():
        pytest.skip("no such file here")
    written = io.BytesIO()
    with Packer.into(written) as packer:
        packer.add_workspaces(folder)
        packer.add_text("last", "here")
    written.seek(0)
    with tarfile.open(fileobj=written) as archive:
        assert archive.extractfile("last").read() == b"here"  # type: ignore[union-attr]
        assert archive.extractfile("workspaces/enabled").read().rstrip(b"\0")  # type: ignore[union-attr]
