"""Unpacks a backup without trusting it."""

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
_DAMAGED = "it is damaged or incomplete"

_MAX_FILES = 2_000_000
"""The maximum number of entries, also when a backup is made."""
_MAX_READ = _CHUNK
"""The longest single read: headers are shorter, and content is read in chunks."""
_MAX_RATIO = 200
"""The maximum compression ratio. Conversations shrink to a third, and images not at all; an archive beyond this ratio
is mostly zeros and may fill at most a quarter of the free space."""
_SAFE_SHARE = 4


class Unpacker:
    """Reads the archive once from start to end. Raises BackupUnusable for any defect of the file.

    Raises OSError (ENOSPC) if the disk has too little space for the content.
    """

    def __init__(self, archive: tarfile.TarFile, size: int, most_files: int) -> None:
        self._archive = archive
        self._size = size
        self._most_files = most_files
        self._unpacked = 0
        self.manifest = self._read_manifest()
        self.has_configuration = False
        self.left_out: list[str] = []
        """Links that may lead out of the workspaces and are not created."""
        self._links: dict[Path, str] = {}

    @classmethod
    @contextmanager
    def of(cls, path: Path, *, most_files: int = _MAX_FILES) -> Iterator[Unpacker]:
        try:
            with (
                open_with_progress(path, "Reading the backup") as file,
                _Plain(fileobj=file, mode="rb") as plain,
                tarfile.open(fileobj=plain, mode="r:") as archive,
            ):
                yield cls(archive, path.stat().st_size, most_files)
        except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError) as error:
            raise BackupUnusable(f"it is not a backup of Hermes, or {_DAMAGED} ({error}).") from error

    def unpack(
        self,
        *,
        database: Path | None = None,
        engines: Mapping[str, Path] | None = None,
        workspaces: Path | None = None,
    ) -> None:
        """Unpack the parts that have a target. Reads all other parts, too, so that any damage is found."""
        digest, of_engines = "", dict[str, str]()
        for entry in self._entries():
            if entry.name == DATABASE:
                digest = self._unpack_database(entry, database)
            elif entry.name == CONFIGURATION:
                self.has_configuration = True
            elif entry.name.startswith(f"{ENGINES}/"):
                name = entry.name.removeprefix(f"{ENGINES}/")
                of_engines[name] = self._unpack_database(entry, (engines or {}).get(name))
            elif entry.name.startswith(f"{WORKSPACES}/"):
                self._unpack_file(entry, workspaces)
            else:
                raise BackupUnusable(f"it contains an unknown entry, `{entry.name}`.")
        assert self._archive.fileobj is not None
        while self._archive.fileobj.read(_CHUNK):
            pass  # the checksum is at the end of the archive
        if digest != self.manifest.sha256 or of_engines != dict(self.manifest.engines):
            raise BackupUnusable("a database in it does not match its digest.")
        self._make_links()

    def _entries(self) -> Iterator[tarfile.TarInfo]:
        for number in itertools.count(1):
            entry = self._archive.next()
            if entry is None:
                return
            if number > self._most_files:
                raise BackupUnusable(f"it contains more than {self._most_files:,} files.")
            if entry.issparse() or entry.size < 0:
                raise BackupUnusable(f"{_DAMAGED} (`{entry.name}`).")
            self._archive.members.clear()  # type: ignore[attr-defined]  # tarfile would keep every entry in memory
            yield entry

    def _check_space(self, entry: tarfile.TarInfo, folder: Path) -> None:
        """Check the free space before each file; content is never longer than its header says."""
        disk = shutil.disk_usage(folder)
        if entry.size > disk.free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        before = disk.free + self._unpacked
        self._unpacked += entry.size
        if self._unpacked > max(self._size * _MAX_RATIO, before // _SAFE_SHARE):
            raise BackupUnusable(
                f"its content is more than {_MAX_RATIO} times its size and would fill much of the disk. "
                "If you trust it, free some space and try again."
            )

    def _read_manifest(self) -> Manifest:
        first = self._archive.next()
        if first is None or first.name != MANIFEST or first.size > _MANIFEST_LIMIT:
            raise BackupUnusable("it is not a backup of Hermes.")
        return Manifest.from_json(self._content(first).read())

    def _unpack_database(self, entry: tarfile.TarInfo, target: Path | None) -> str:
        digest = hashlib.sha256()
        content = self._content(entry)
        if target is not None:
            self._check_space(entry, target.parent)
        with Path(os.devnull).open("wb") if target is None else _new_file(target) as file:
            while piece := content.read(_CHUNK):
                digest.update(piece)
                file.write(piece)
        return digest.hexdigest()

    def _unpack_file(self, entry: tarfile.TarInfo, directory: Path | None) -> None:
        name = PurePosixPath(entry.name).relative_to(WORKSPACES)
        if ".." in name.parts or name.is_absolute():
            raise BackupUnusable(f"`{entry.name}` in it would be written outside the workspaces.")
        if directory is None:
            return
        target = directory / name
        if entry.isdir():
            target.mkdir(mode=0o700, parents=True, exist_ok=True)
        elif entry.issym():
            self._remember_link(entry, target, str(name))
        elif entry.isreg():
            self._write(entry, target)

    def _remember_link(self, entry: tarfile.TarInfo, target: Path, name: str) -> None:
        """Remember a link; links are created last, so that nothing is written through one."""
        leads_to = PurePosixPath(entry.linkname)
        ups = len(list(itertools.takewhile(lambda part: part == "..", leads_to.parts)))
        # Leading `..` from a real folder are safe. After a name, which may be a link, `..` could lead anywhere.
        is_inside = ups < len(PurePosixPath(name).parts) and ".." not in leads_to.parts[ups:]
        if leads_to.is_absolute() or not is_inside:
            self.left_out.append(name)
        else:
            self._links[target] = entry.linkname

    def _make_links(self) -> None:
        for link, target in self._links.items():
            if any(folder in self._links for folder in link.parents):
                self.left_out.append(str(link))  # its parent is a link, so it would be created elsewhere
            else:
                link.symlink_to(target)

    def _write(self, entry: tarfile.TarInfo, target: Path) -> None:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check_space(entry, target.parent)
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


class _Plain(gzip.GzipFile):
    """The decompressed archive, with limits for tarfile, which trusts the sizes and positions in headers."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= _MAX_READ:
            raise BackupUnusable(f"{_DAMAGED} (a header is too large).")
        return super().read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_SET and offset < self.tell():
            raise BackupUnusable(f"{_DAMAGED} (a header leads back).")
        return super().seek(offset, whence)


def _new_file(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
