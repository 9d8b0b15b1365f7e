"""Archives that are made to fill the disk or the memory: refused before they do, and nothing is touched."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import tarfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.backup.unpack import Unpacker
from gateway.errors import BackupUnusable, RestoreFailed
from tests.support.backup_harness import StateDirectory, unusable, with_texts

MEGABYTE = 1 << 20
WORKSPACE = "workspaces/conv_1"


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return with_texts(tmp_path / "home", "old")


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    elsewhere = with_texts(tmp_path / "elsewhere", "new")
    elsewhere.workspaces.mkdir()
    return elsewhere.backup(tmp_path / "b.tar.gz", workspaces=True).path


def with_members(backup: Path, target: Path, *members: bytes) -> Path:
    """The archive with these raw members behind its own."""
    plain = gzip.decompress(backup.read_bytes())
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        last = archive.getmembers()[-1]
        end = last.offset_data + -(-last.size // 512) * 512
    target.write_bytes(gzip.compress(plain[:end] + b"".join(members) + bytes(1024), 9))
    return target


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size, entry.type = size, kind
    return entry.tobuf(tarfile.GNU_FORMAT)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(directory)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root in a real system can mount a small file system")
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


def test_a_file_that_is_larger_than_the_disk(state: StateDirectory, backup: Path, tmp_path: Path) -> None:
    """Its announced size is enough to know."""
    bomb = with_members(backup, tmp_path / "bomb", header(f"{WORKSPACE}/large", 1 << 60))
    with pytest.raises(RestoreFailed, match=f"{state.home} is full"):
        state.restore(bomb)
    assert state.texts() == ["old"] and state.names() == {"state.db"}


def test_an_ordinary_backup_may_fill_a_small_disk(backup: Path, tmp_path: Path, small_disk: Path) -> None:
    """An archive that fits is restored; one that does not is refused before anything is written."""
    state = with_texts(small_disk / "home", "old")
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    for size in (free + MEGABYTE, free - 2 * MEGABYTE):
        content = header(f"{WORKSPACE}/large", size), os.urandom(size)
        full = with_members(backup, tmp_path / "full", *content)
        if size > free:
            with pytest.raises(RestoreFailed, match=f"{state.home} is full"):
                state.restore(full)
            assert state.texts() == ["old"] and state.names() == {"state.db"}
        else:
            state.restore(full)
            assert (state.workspaces / "conv_1" / "large").stat().st_size == size


@pytest.mark.parametrize("files", [1, 4])
def test_zeros_that_take_much_of_the_disk(backup: Path, tmp_path: Path, small_disk: Path, files: int) -> None:
    """24 MB in 40 kB, in one file or in several. As many zeros that take little of the disk are let in."""
    state = with_texts(small_disk / "home", "old")
    size = 24 * MEGABYTE // files
    members = [header(f"{WORKSPACE}/{number}", size) + bytes(size) for number in range(files)]
    bomb = with_members(backup, tmp_path / "bomb", *members)
    assert bomb.stat().st_size < 100_000
    assert "times its size" in unusable(state, bomb)
    small = with_members(backup, tmp_path / "small", header(f"{WORKSPACE}/0", MEGABYTE) + bytes(MEGABYTE))
    state.restore(small)
    assert (state.workspaces / "conv_1" / "0").stat().st_size == MEGABYTE


def test_too_many_files(backup: Path, tmp_path: Path) -> None:
    """Each costs next to nothing in the archive, and an entry on the disk."""
    crowd = with_members(
        backup, tmp_path / "crowd", *(header(f"{WORKSPACE}/{number}", 0) for number in range(50))
    )
    with (
        pytest.raises(BackupUnusable, match="more than 30 files"),
        Unpacker.of(crowd, most_files=30) as archive,
    ):
        archive.unpack()
    with Unpacker.of(crowd) as archive:
        archive.unpack()


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_is_larger_than_any_name(
    state: StateDirectory, backup: Path, tmp_path: Path, kind: bytes
) -> None:
    """The library would read it into memory at once."""
    size = 64 * MEGABYTE
    bomb = with_members(backup, tmp_path / "bomb", header("x", size, kind) + bytes(size), header("y", 0))
    tracemalloc.start()
    try:
        assert "damaged" in unusable(state, bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size / 4


def _sparse() -> bytes:
    """A file of a petabyte without a single byte in it."""
    entry = bytearray(header(f"{WORKSPACE}/hole", 0, tarfile.GNUTYPE_SPARSE))
    entry[483:495] = b"\x80" + (1 << 50).to_bytes(11, "big")
    return _summed(entry)


def _backwards() -> bytes:
    """A size below zero sends the library back to where it has been, again and again."""
    entry = bytearray(header(f"{WORKSPACE}/back", 0))
    entry[124:136] = b"\xff" + (256**11 - 1024).to_bytes(11, "big")
    return _summed(entry)


def _summed(entry: bytearray) -> bytes:
    entry[148:156] = b" " * 8
    entry[148:156] = b"%06o\0 " % sum(entry)
    return bytes(entry)


@pytest.mark.parametrize("member", [_sparse, _backwards])
def test_members_that_no_backup_of_ours_has(
    state: StateDirectory, backup: Path, tmp_path: Path, member: Callable[[], bytes]
) -> None:
    """Refused, with or without a place to unpack them to."""
    bomb = with_members(backup, tmp_path / "bomb", member())
    assert "damaged" in unusable(state, bomb)
    with pytest.raises(BackupUnusable), Unpacker.of(bomb) as archive:
        archive.unpack()
