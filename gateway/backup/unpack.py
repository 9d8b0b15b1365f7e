"""Reads a backup, and believes nothing that it says about itself."""

from __future__ import annotations

import errno
import gzip
import hashlib
import itertools
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from gateway.backup.archive import CONFIGURATION, DATABASE, ENGINES, MANIFEST, WORKSPACES, Manifest
from gateway.errors import BackupUnusable
from gateway.progress import open_with_progress

_CHUNK = 1 << 20
_MANIFEST_LIMIT = 1_000_000
_CUT_OFF = "it is damaged or incomplete"

_MOST_FILES = 2_000_000
"""A backup that holds more is refused when it is made, too."""
_LARGEST_READ = _CHUNK
"""Nothing but content is longer, and that is read in pieces."""
_MOST_TIGHTLY = 200
"""Conversations shrink to a third, and pictures not at all. Whatever unpacks to more than 200 times the size of the
archive is mostly zeros, and taken only as long as it fills no more than a quarter of what is free."""
_HARMLESS_SHARE = 4


class Unpacker:
    """One pass from the beginning to the end. Whatever is wrong with the file is a BackupUnusable.

    Where the disk has too little room for what is to be unpacked, it is an OSError, as if it were full already.
    """

    def __init__(self, archive: tarfile.TarFile, size: int, most_files: int) -> None:
        self._archive = archive
        self._size = size
        self._most_files = most_files
        self._unpacked = 0
        self.manifest = self._read_manifest()
        self.has_configuration = False
        self.left_out: list[str] = []
        """Links that may lead out of the workspaces: a backup opens no door to other files."""
        self._links: dict[Path, str] = {}

    @classmethod
    @contextmanager
    def of(cls, path: Path, *, most_files: int = _MOST_FILES) -> Iterator[Unpacker]:
        try:
            with (
                open_with_progress(path, "Reading the backup") as file,
                _Plain(fileobj=file, mode="rb") as plain,
                _opened(plain) as archive,
            ):
                yield cls(archive, path.stat().st_size, most_files)
        except tarfile.ReadError as error:
            raise BackupUnusable(f"it is not a backup of Hermes, or {_CUT_OFF} ({error}).") from error
        except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError) as error:
            raise BackupUnusable(f"{_CUT_OFF} ({error}).") from error

    def unpack(
        self,
        *,
        database: Path | None = None,
        engines: Mapping[str, Path] | None = None,
        workspaces: Path | None = None,
    ) -> None:
        """What is not wanted is read all the same, so that damage anywhere is found before anything is done."""
        digest, of_engines = "", dict[str, str]()
        for entry in self._entries():
            if entry.name == DATABASE:
                digest = self._take_database(entry, database)
            elif entry.name == CONFIGURATION:
                self.has_configuration = True
            elif entry.name.startswith(f"{ENGINES}/"):
                name = entry.name.removeprefix(f"{ENGINES}/")
                of_engines[name] = self._take_database(entry, (engines or {}).get(name))
            elif entry.name.startswith(f"{WORKSPACES}/"):
                self._take_file(entry, workspaces)
            else:
                raise BackupUnusable(f"nobody knows what `{entry.name}` in it is.")
        self._read_to_the_end()
        if digest != self.manifest.sha256 or of_engines != dict(self.manifest.engines):
            raise BackupUnusable("the database in it is not the one that was put in.")
        self._make_links()

    def _entries(self) -> Iterator[tarfile.TarInfo]:
        for number in itertools.count(1):
            entry = self._archive.next()
            if entry is None:
                return
            if number > self._most_files:
                raise BackupUnusable(f"there are more than {self._most_files:,} files in it.")
            if entry.issparse() or entry.size < 0:
                raise BackupUnusable(f"{_CUT_OFF} (`{entry.name}`).")
            self._archive.members.clear()  # type: ignore[attr-defined]  # the library would keep them all
            yield entry

    def _make_room(self, entry: tarfile.TarInfo, folder: Path) -> None:
        """Before each file: content is never longer than its header has said."""
        disk = shutil.disk_usage(folder)
        if entry.size > disk.free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        before = disk.free + self._unpacked
        self._unpacked += entry.size
        if self._unpacked > max(self._size * _MOST_TIGHTLY, before // _HARMLESS_SHARE):
            raise BackupUnusable(
                f"what is in it takes more than {_MOST_TIGHTLY} times its size, and much of what is free on the disk. "
                "If you trust it, make room and try again."
            )

    def _read_manifest(self) -> Manifest:
        first = self._archive.next()
        if first is None or first.name != MANIFEST or first.size > _MANIFEST_LIMIT:
            raise BackupUnusable("it is not a backup of Hermes.")
        return Manifest.from_json(self._content(first).read())

    def _take_database(self, entry: tarfile.TarInfo, target: Path | None) -> str:
        digest = hashlib.sha256()
        content = self._content(entry)
        if target is not None:
            self._make_room(entry, target.parent)
        with Path(os.devnull).open("wb") if target is None else _new_file(target) as file:
            while piece := content.read(_CHUNK):
                digest.update(piece)
                file.write(piece)
        return digest.hexdigest()

    def _take_file(self, entry: tarfile.TarInfo, directory: Path | None) -> None:
        name = PurePosixPath(entry.name).relative_to(WORKSPACES)
        if ".." in name.parts or name.is_absolute():
            raise BackupUnusable(f"`{entry.name}` in it would be put outside of the workspaces.")
        if directory is None:
            return
        target = directory / name
        if entry.isdir():
            target.mkdir(mode=0o700, parents=True, exist_ok=True)
        elif entry.issym():
            self._note_link(entry, target, str(name))
        elif entry.isreg():
            self._write(entry, target)

    def _note_link(self, entry: tarfile.TarInfo, target: Path, name: str) -> None:
        """They are made last, so that nothing is ever written through one."""
        leads_to = PurePosixPath(entry.linkname)
        ups = len(list(itertools.takewhile(lambda part: part == "..", leads_to.parts)))
        # Upwards from a real folder is where the letters say. After a name, which may be a link, it could be anywhere.
        is_inside = ups < len(PurePosixPath(name).parts) and ".." not in leads_to.parts[ups:]
        if leads_to.is_absolute() or not is_inside:
            self.left_out.append(name)
        else:
            self._links[target] = entry.linkname

    def _make_links(self) -> None:
        for link, target in self._links.items():
            if any(folder in self._links for folder in link.parents):
                self.left_out.append(str(link))  # it would come to lie elsewhere than its name says
            else:
                link.symlink_to(target)

    def _write(self, entry: tarfile.TarInfo, target: Path) -> None:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._make_room(entry, target.parent)
        content = self._content(entry)
        with _new_file(target) as file:
            while piece := content.read(_CHUNK):
                file.write(piece)
            os.fchmod(file.fileno(), 0o600 | entry.mode & 0o100)
        os.utime(target, (entry.mtime, entry.mtime))

    def _content(self, entry: tarfile.TarInfo) -> IO[bytes]:
        content = self._archive.extractfile(entry) if entry.isreg() else None
        if content is None:
            raise BackupUnusable(f"`{entry.name}` in it is not a file.")
        return content

    def _read_to_the_end(self) -> None:
        """The checksum of the whole stands there."""
        assert self._archive.fileobj is not None
        while self._archive.fileobj.read(_CHUNK):
            pass


class _Plain(gzip.GzipFile):
    """The archive without its compression, for a library that would read as much as a header says, and go back to
    where a header says."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= _LARGEST_READ:
            raise BackupUnusable(f"{_CUT_OFF} (a header is too large).")
        return super().read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_SET and offset < self.tell():
            raise BackupUnusable(f"{_CUT_OFF} (a header leads back).")
        return super().seek(offset, whence)


def _opened(plain: _Plain) -> tarfile.TarFile:
    try:
        return tarfile.open(fileobj=plain, mode="r:")
    except gzip.BadGzipFile as error:
        raise tarfile.ReadError("not a gzip file") from error


def _new_file(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
