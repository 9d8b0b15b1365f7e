"""SQLite only: a backup takes the place of what is there, which is kept; or it is refused and nothing is touched."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
import sqlite3
import stat
import subprocess
import tarfile
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent.store import Address
from gateway.errors import AlreadyRunning, RestoreFailed
from gateway.process_lock import hold_lock
from gateway.store.sqlite.health import diagnose
from gateway.store.sqlite.migrate import load_migrations, schema_version
from gateway.store.sqlite.store import SqliteStore
from tests.support.backup_harness import StateDirectory, texts_in, unusable, with_texts
from tests.support.index_damage import DAMAGE
from tests.support.schema_dump import frozen


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return with_texts(tmp_path / "home", "old")


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    elsewhere = with_texts(tmp_path / "elsewhere", "new", "newer")
    (elsewhere.workspaces / "conv_1").mkdir(parents=True)
    (elsewhere.workspaces / "conv_1" / "run.sh").write_text("echo hello")
    (elsewhere.workspaces / "conv_1" / "run.sh").chmod(0o755)
    return elsewhere.backup(tmp_path / "b.tar.gz", workspaces=True).path


def repacked(backup: Path, target: Path, change: Callable[[tarfile.TarInfo, bytes], bytes | None]) -> Path:
    """The same archive with other members; `change` gives a member's new content, or None to leave it out."""
    with tarfile.open(backup) as old, tarfile.open(target, "w:gz") as new:
        for member in old:
            file = old.extractfile(member) if member.isreg() else None
            content = change(member, file.read() if file else b"")
            if content is not None:
                member.size = len(content)
                new.addfile(member, io.BytesIO(content))
    return target


def test_there_and_back(state: StateDirectory, backup: Path) -> None:
    """The new in the place of the old, the old beside it, and the way back is the same command."""
    restored = state.restore(backup)
    assert state.texts() == ["new", "newer"]
    assert (restored.staged.contents.conversations, restored.staged.contents.messages) == (1, 2)
    (kept,) = restored.kept
    assert texts_in(kept) == ["old"]
    assert stat.S_IMODE(state.database.stat().st_mode) == 0o600
    assert state.names() == {"state.db", kept.name, "workspaces"}
    state.restore(kept)
    assert state.texts() == ["old"]


def test_workspaces_too(state: StateDirectory, backup: Path) -> None:
    """With the right to run what could be run; what was there is kept."""
    (state.workspaces / "conv_0").mkdir(parents=True)
    restored = state.restore(backup)
    assert (state.workspaces / "conv_1" / "run.sh").read_text() == "echo hello"
    assert os.access(state.workspaces / "conv_1" / "run.sh", os.X_OK)
    _, kept = restored.kept
    assert [path.name for path in kept.iterdir()] == ["conv_0"]


def test_workspaces_stay_where_the_backup_has_none(
    state: StateDirectory, backup: Path, tmp_path: Path
) -> None:
    """What is not in a backup is not taken away by it."""
    (state.workspaces / "conv_0").mkdir(parents=True)
    without = state.backup(tmp_path / "without.tar.gz").path
    assert not state.restore(without).staged.workspaces
    assert (state.workspaces / "conv_0").exists()


def test_where_nothing_was(backup: Path, tmp_path: Path) -> None:
    """On a new machine."""
    state = StateDirectory(tmp_path / "new-home")
    assert state.restore(backup).kept == ()
    assert state.texts() == ["new", "newer"]


def test_everything_works_afterwards(state: StateDirectory, backup: Path) -> None:
    """Conversations go on, and what was said is found."""
    state.restore(backup)

    async def look() -> tuple[int, int]:
        store = await SqliteStore.open(state.database)
        conversation = await store.sessions.open_conversation(Address("web", "1"), person="ada")
        counts = (
            len(await store.sessions.transcript(conversation.id)),
            len(await store.sessions.search("newer")),
        )
        await store.close()
        return counts

    assert asyncio.run(look()) == (2, 1)


def test_refused_while_hermes_runs(state: StateDirectory, backup: Path) -> None:
    """It would write to a deleted file."""
    with hold_lock(state.home, state.database), pytest.raises(AlreadyRunning):
        state.restore(backup)
    assert state.texts() == ["old"]


def test_what_is_no_backup(state: StateDirectory, tmp_path: Path) -> None:
    """A picture archive, an empty file, another archive."""
    other = tmp_path / "other"
    other.write_bytes(b"JFIF" * 1000)
    assert "it is not a backup of Hermes" in unusable(state, other)
    other.write_bytes(b"")
    assert "it is not a backup of Hermes" in unusable(state, other)
    with tarfile.open(other, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("holiday.jpg"))
    assert "it is not a backup of Hermes" in unusable(state, other)
    with closing(sqlite3.connect(tmp_path / "photos.db")) as photos:
        photos.execute("CREATE TABLE photos (id)")
    assert "a database of another program" in unusable(state, tmp_path / "photos.db")
    with pytest.raises(RestoreFailed, match="nowhere: No such file"):
        state.restore(tmp_path / "nowhere")
    with pytest.raises(RestoreFailed, match="that is the present database"):
        state.restore(state.database)


def test_damage_on_the_way(state: StateDirectory, backup: Path, tmp_path: Path) -> None:
    """Cut off anywhere, or a bit turned anywhere: nothing of it is used."""
    whole = backup.read_bytes()
    damaged = tmp_path / "damaged.tar.gz"
    for tenth in range(10):
        damaged.write_bytes(whole[: len(whole) * tenth // 10])
        unusable(state, damaged)
        turned = bytearray(whole)
        turned[len(whole) * tenth // 10 + 20] ^= 0x10
        damaged.write_bytes(turned)
        if not still_the_same(turned, whole):
            unusable(state, damaged)
    damaged.write_bytes(whole[:-8])  # only the checksum at the end
    unusable(state, damaged)


def still_the_same(turned: bytes, whole: bytes) -> bool:
    """Where zeros are copied from other zeros, it does not matter from which."""
    try:
        return gzip.decompress(turned) == gzip.decompress(whole)
    except (OSError, EOFError, zlib.error):
        return False


def test_a_database_that_was_exchanged(state: StateDirectory, backup: Path, tmp_path: Path) -> None:
    """The archive is sound; its database is not the one it speaks of."""
    other = with_texts(tmp_path / "third", "forged").database.read_bytes()
    forged = repacked(backup, tmp_path / "f", lambda member, old: other if member.name == "state.db" else old)
    assert "does not match its digest" in unusable(state, forged)
    without = repacked(backup, tmp_path / "w", lambda member, old: None if member.name == "state.db" else old)
    assert "does not match its digest" in unusable(state, without)


def manifest_with(**changes: Any) -> Callable[[tarfile.TarInfo, bytes], bytes]:
    def change(member: tarfile.TarInfo, old: bytes) -> bytes:
        return json.dumps(json.loads(old) | changes).encode() if member.name == "hermes-backup.json" else old

    return change


def test_from_a_newer_hermes(state: StateDirectory, backup: Path, tmp_path: Path) -> None:
    """A newer format of the archive or the database: upgrade first."""
    newer = repacked(backup, tmp_path / "n", manifest_with(format=3, hermes="9.0"))
    assert "made by a newer Hermes (9.0); upgrade Hermes" in unusable(state, newer)
    future = with_texts(tmp_path / "future", "x").database
    with closing(sqlite3.connect(future)) as plain:
        plain.execute("INSERT INTO schema_migrations VALUES (9999, 'from the future', 0)")
        plain.commit()
    assert "made by a newer Hermes; upgrade Hermes to restore it" in unusable(state, future)


@pytest.mark.parametrize("manifest", [b"", b"[]", b"{}", b'{"format": 1}', b'{"format": 1, "contents": 3}'])
def test_a_manifest_that_makes_no_sense(
    state: StateDirectory, backup: Path, tmp_path: Path, manifest: bytes
) -> None:
    """It is read before anything else, and refused in a sentence."""
    strange = repacked(
        backup, tmp_path / "s", lambda member, old: manifest if member.name == "hermes-backup.json" else old
    )
    assert "it is not a backup of Hermes" in unusable(state, strange)


def test_from_an_older_hermes(state: StateDirectory, tmp_path: Path) -> None:
    """It is brought up to date before it takes its place."""
    old = tmp_path / "old.db"
    with closing(sqlite3.connect(old)) as plain:
        plain.executescript(frozen(1).read_text(encoding="utf-8"))
        plain.execute("INSERT INTO facts VALUES (1, 'fact_1', 'ada', 'likes tea', 0)")
        plain.commit()
    state.restore(old)
    with closing(sqlite3.connect(state.database)) as plain:
        assert schema_version(plain) == len(load_migrations())
        assert plain.execute("SELECT text FROM facts").fetchall() == [("likes tea",)]


def test_a_damaged_index_is_mended_on_the_way(state: StateDirectory, tmp_path: Path) -> None:
    """It holds nothing that the messages do not hold."""
    with closing(sqlite3.connect(state.database)) as plain:
        plain.execute(DAMAGE["a structure that names too much"])
        plain.commit()
    backup = state.backup(tmp_path / "b.tar.gz").path
    state.restore(backup)
    assert diagnose(state.database).index_damage is None


def test_a_reply_that_may_have_arrived_since(state: StateDirectory, tmp_path: Path) -> None:
    """A reply that was being sent at the time of the backup is sent again, marked as uncertain."""
    with closing(sqlite3.connect(state.database)) as plain:
        columns = "id, conversation_id, turn_id, platform, place, kind, content, created_at"
        plain.execute(
            f"INSERT INTO outbox ({columns}) VALUES ('o', 'c', 't', 'telegram', '{{}}', 'text', 'hi', 0)"
        )
        plain.commit()
    state.restore(state.backup(tmp_path / "b.tar.gz").path)
    with closing(sqlite3.connect(state.database)) as plain:
        assert plain.execute("SELECT state FROM outbox").fetchall() == [("sending",)]


def test_names_that_lead_out(state: StateDirectory, backup: Path, tmp_path: Path) -> None:
    """A file is never written outside the workspaces, not even through a link that came with it."""

    def outwards(member: tarfile.TarInfo, old: bytes) -> bytes:
        if member.name.endswith("run.sh"):
            member.name = "workspaces/../../escaped"
        return old

    assert "outside the workspaces" in unusable(state, repacked(backup, tmp_path / "o", outwards))
    assert not (tmp_path / "escaped").exists()

    def as_link(member: tarfile.TarInfo, old: bytes) -> bytes:
        if member.name == "workspaces/conv_1":
            member.type, member.linkname = tarfile.SYMTYPE, "../../.."
            return b""
        return old

    restored = state.restore(repacked(backup, tmp_path / "l", as_link))
    assert restored.staged.left_out == 1
    assert (state.workspaces / "conv_1" / "run.sh").is_file()
    assert not (state.workspaces / "conv_1").is_symlink()


def test_links_inside_are_kept(state: StateDirectory, tmp_path: Path) -> None:
    """And those to the outside are left out, and counted."""
    folder = state.workspaces / "conv_1"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    (folder / "inside").symlink_to("a.txt")
    (folder / "outside").symlink_to("/etc/hostname")
    backup = state.backup(tmp_path / "b.tar.gz", workspaces=True).path
    assert state.restore(backup).staged.left_out == 1
    assert (folder / "inside").read_text() == "a"
    assert not (folder / "outside").is_symlink()


def test_links_that_lead_out_through_others(state: StateDirectory, tmp_path: Path) -> None:
    """By their letters they stay inside; a link to where it lies itself makes the way shorter than its letters."""
    folder = state.workspaces / "conv_1"
    (folder / "deep").mkdir(parents=True)
    (folder / "here").symlink_to(".")
    (folder / "deep" / "up").symlink_to("../here")
    (folder / "through").symlink_to("here/here/here/../../../state.db")
    backup = state.backup(tmp_path / "b.tar.gz", workspaces=True).path

    def below_a_link(member: tarfile.TarInfo, old: bytes) -> bytes:
        if member.name.endswith("deep/up"):
            member.name, member.linkname = "workspaces/conv_1/here/here/here/up", "../../../../state.db"
        return old

    assert state.restore(backup).staged.left_out == 1
    assert (folder / "deep" / "up").samefile(folder)
    assert not (folder / "through").is_symlink()
    assert state.restore(repacked(backup, tmp_path / "r", below_a_link)).staged.left_out == 2
    assert not (folder / "up").is_symlink()


def test_no_room(backup: Path, tmp_path: Path) -> None:
    """Said before anything is touched; what was there works on."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root in a real system can mount a small file system")
    try:
        state = with_texts(disk / "home", "old")
        large = repacked(
            backup,
            tmp_path / "large.tar.gz",
            lambda member, old: os.urandom(2_000_000) if member.name.endswith("run.sh") else old,
        )
        with pytest.raises(RestoreFailed, match=f"{state.home} is full"):
            state.restore(large)
        assert state.texts() == ["old"]
        assert state.names() == {"state.db"}
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
