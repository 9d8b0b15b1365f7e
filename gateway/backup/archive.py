"""The file a backup is: a `.tar.gz` that any computer can open, with a note of what is in it on top.

- `hermes-backup.json`: what follows, and digests of the databases
- `state.db`: the database, whole and checked
- `engines/...`: the databases of context engines, if there are any
- `hermes.yaml`: the configuration, if no key or token stands in it
- `workspaces/...`: the agents' folders, if they were asked for
"""

from __future__ import annotations

import io
import json
import os
import stat
import tarfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

import yaml

from agent.redaction import redact
from gateway.backup.engine_databases import is_engine_name
from gateway.errors import BackupUnusable
from gateway.progress import open_with_progress
from gateway.store.sqlite.backup import Contents as Contents

_SHORTEST = 4
"""What is shorter is found in any text, and protects nothing."""


def holds_secret(text: str, secrets: Collection[str]) -> bool:
    """One of these, or anything that looks like a key, also in a comment. Rather once too often."""
    written = [text, *_scalars(text)]
    if any(secret in part for secret in secrets if len(secret) >= _SHORTEST for part in written):
        return True
    return any(redact(part) != part for part in written)


def _scalars(text: str) -> Iterator[str]:
    """As they are meant: in quotes, `\\x73` is an `s`, and a line may be broken anywhere."""
    return (token.value for token in yaml.scan(text) if isinstance(token, yaml.ScalarToken))


FORMAT = 2
_FORMAT_WITHOUT_ENGINES = 1
"""Where there are none, an earlier Hermes can read it, too."""
MANIFEST, DATABASE, CONFIGURATION, WORKSPACES = "hermes-backup.json", "state.db", "hermes.yaml", "workspaces"
ENGINES = "engines"

_COMPRESSION = 3
"""Larger by a tenth than at the usual level, in a third of the time."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup says about itself."""

    hermes: str
    """The version that made it."""
    contents: Contents
    database_bytes: int
    sha256: str
    """Of the database."""
    workspaces: bool
    format: int = FORMAT
    engines: Mapping[str, str] = field(default_factory=dict)
    """The databases of engines, each with its digest."""

    def as_json(self) -> str:
        told = asdict(self) | {"contents": self.contents._asdict()}
        if not told["engines"]:
            del told["engines"]
            told["format"] = _FORMAT_WITHOUT_ENGINES
        return json.dumps(told, indent=2)

    @classmethod
    def from_json(cls, text: bytes) -> Manifest:
        try:
            given = json.loads(text)
            if int(given["format"]) > FORMAT:
                raise BackupUnusable(f"it was made by a newer Hermes ({given['hermes']}); upgrade Hermes.")
            if not all(map(is_engine_name, given.get("engines", {}))):
                raise BackupUnusable("a database in it would be put where none belongs.")
            return cls(**given | {"contents": Contents(**given["contents"])})
        except (ValueError, KeyError, TypeError) as error:
            raise BackupUnusable("it is not a backup of Hermes.") from error


class Packer:
    """Writes a backup part by part, the manifest first."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self.left_out: list[str] = []
        """What could not be read: one file that somebody has locked must not cost the owner the whole backup."""

    @classmethod
    @contextmanager
    def into(cls, file: IO[bytes]) -> Iterator[Packer]:
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=_COMPRESSION) as archive:
            yield cls(archive)

    def add_manifest(self, manifest: Manifest) -> None:
        self.add_text(MANIFEST, manifest.as_json())

    def add_text(self, name: str, text: str) -> None:
        encoded = text.encode()
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(encoded), 0o600
        self._archive.addfile(entry, io.BytesIO(encoded))

    def add_database(self, path: Path, name: str = DATABASE) -> None:
        with open_with_progress(path, "Packing") as file:
            self._archive.addfile(*_as_entry(file, name, self._archive))

    def add_workspaces(self, directory: Path) -> int:
        """How many files. They may change or go while they are read, and that costs nothing but themselves."""
        files = 0
        for folder, folders, names in os.walk(directory, onerror=self._leave_out):
            for path in (Path(folder, name) for name in sorted([*folders, *names])):
                files += self._add(path, f"{WORKSPACES}/{path.relative_to(directory)}")
        return files

    def _add(self, path: Path, name: str) -> bool:
        """Whether it is a file. What fails once a part of it is written fails the backup: the rest would be garbage."""
        try:
            if not stat.S_ISREG(path.lstat().st_mode):
                entry: tarfile.TarInfo | None = self._archive.gettarinfo(path, name)
                if entry is not None and (entry.isdir() or entry.issym()):
                    self._archive.addfile(_of_nobody(entry))
                return False
            # Never through a link that was put in its place meanwhile, and without waiting for one who writes a pipe.
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            if error.filename is None:  # it is the backup that cannot be written
                raise
            self._leave_out(error)
            return False
        with os.fdopen(handle, "rb") as file:
            self._archive.addfile(*_as_entry(file, name, self._archive))
        return True

    def _leave_out(self, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            self.left_out.append(f"{error.filename}: {error.strerror}")


def _as_entry(file: IO[bytes], name: str, archive: tarfile.TarFile) -> tuple[tarfile.TarInfo, IO[bytes]]:
    entry = _of_nobody(archive.gettarinfo(arcname=name, fileobj=file))
    # A file with two names comes whole under both, so that each can be taken out by itself.
    entry.type, entry.linkname = tarfile.REGTYPE, ""
    entry.size = os.fstat(file.fileno()).st_size
    return entry, _AsLongAsAnnounced(file, entry.size)


class _AsLongAsAnnounced(io.BytesIO):
    """What somebody cuts off a file while it is read is made up with zeros, or all that follows would be unreadable."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        super().__init__()
        self._file = file
        self._left = size

    def read(self, size: int | None = -1) -> bytes:
        wanted = self._left if size is None or size < 0 else min(size, self._left)
        self._left -= wanted
        return self._file.read(wanted).ljust(wanted, b"\0")


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Names and numbers of this machine's users mean nothing on another."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
