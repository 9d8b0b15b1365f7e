"""Reads a backup, and believes nothing that it says about itself."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from gateway.backups.archive import CONFIGURATION, DATABASE, ENGINES, MANIFEST, WORKSPACES, Manifest
from gateway.errors import BackupUnusable
from gateway.progress import told_while_read

_CHUNK = 1 << 20
_MANIFEST_LIMIT = 1_000_000
_CUT_OFF = "it is damaged or incomplete"


class Unpacker:
    """One pass from the beginning to the end. Whatever is wrong with the file is a BackupUnusable."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self.manifest = self._read_manifest()
        self.has_configuration = False
        self.left_out: list[str] = []
        """Links that may lead out of the workspaces: a backup opens no door to other files."""
        self._links: dict[Path, str] = {}

    @classmethod
    @contextmanager
    def of(cls, path: Path) -> Iterator[Unpacker]:
        try:
            with (
                told_while_read(path, "Reading the backup") as file,
                tarfile.open(fileobj=file, mode="r:gz") as archive,
            ):
                yield cls(archive)
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
        while (entry := self._archive.next()) is not None:
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

    def _read_manifest(self) -> Manifest:
        first = self._archive.next()
        if first is None or first.name != MANIFEST or first.size > _MANIFEST_LIMIT:
            raise BackupUnusable("it is not a backup of Hermes.")
        return Manifest.from_json(self._content(first).read())

    def _take_database(self, entry: tarfile.TarInfo, target: Path | None) -> str:
        digest = hashlib.sha256()
        content = self._content(entry)
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


def _new_file(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
