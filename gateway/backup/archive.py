"""The format of backups: a `.tar.gz` file with a manifest as its first entry.

- `hermes-backup.json`: the manifest, with digests of the databases
- `state.db`: the database
- `engines/...`: the databases of context engines, if there are any
- `hermes.yaml`: the configuration, unless it contains a key or token
- `workspaces/...`: the workspaces of the agent, if requested
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
from gateway.store.sqlite.backup import DatabaseContents as DatabaseContents

_MIN_SECRET_LENGTH = 4
"""Shorter secrets are ignored: they occur in any text."""


def holds_secret(text: str, secrets: Collection[str]) -> bool:
    """Tell whether the text contains one of the secrets or anything that looks like a key, also in comments."""
    written = [text, *_scalars(text)]
    if any(secret in part for secret in secrets if len(secret) >= _MIN_SECRET_LENGTH for part in written):
        return True
    return any(redact(part) != part for part in written)


def _scalars(text: str) -> Iterator[str]:
    """Yield the decoded scalars of YAML: in quotes, `\\x73` is an `s`, and a line may be folded anywhere."""
    return (token.value for token in yaml.scan(text) if isinstance(token, yaml.ScalarToken))


FORMAT = 2
_FORMAT_WITHOUT_ENGINES = 1
"""The format without engine databases, which earlier versions of Hermes can read."""
MANIFEST, DATABASE, CONFIGURATION, WORKSPACES = "hermes-backup.json", "state.db", "hermes.yaml", "workspaces"
ENGINES = "engines"

_COMPRESSION = 3
"""The gzip level: a tenth larger than the default, in a third of the time."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a backup."""

    hermes: str
    """The version of Hermes that made the backup."""
    contents: DatabaseContents
    database_bytes: int
    sha256: str
    """The digest of the database."""
    workspaces: bool
    format: int = FORMAT
    engines: Mapping[str, str] = field(default_factory=dict)
    """Digests of the databases of context engines by name."""

    def as_json(self) -> str:
        given = asdict(self) | {"contents": self.contents._asdict()}
        if not given["engines"]:
            del given["engines"]
            given["format"] = _FORMAT_WITHOUT_ENGINES
        return json.dumps(given, indent=2)

    @classmethod
    def from_json(cls, text: bytes) -> Manifest:
        try:
            given = json.loads(text)
            if int(given["format"]) > FORMAT:
                raise BackupUnusable(f"it was made by a newer Hermes ({given['hermes']}); upgrade Hermes.")
            if not all(map(is_engine_name, given.get("engines", {}))):
                raise BackupUnusable("it contains an engine database with an invalid name.")
            return cls(**given | {"contents": DatabaseContents(**given["contents"])})
        except (ValueError, KeyError, TypeError) as error:
            raise BackupUnusable("it is not a backup of Hermes.") from error


class Packer:
    """Writes a backup entry by entry, the manifest first."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self.left_out: list[str] = []
        """Files that could not be read; they do not fail the backup."""

    @classmethod
    @contextmanager
    def into(cls, file: IO[bytes]) -> Iterator[Packer]:
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=_COMPRESSION) as archive:
            yield cls(archive)

    def add_text(self, name: str, text: str) -> None:
        encoded = text.encode()
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(encoded), 0o600
        self._archive.addfile(entry, io.BytesIO(encoded))

    def add_database(self, path: Path, name: str = DATABASE) -> None:
        with open_with_progress(path, "Packing") as file:
            self._archive.addfile(*_as_entry(file, name, self._archive))

    def add_workspaces(self, directory: Path) -> int:
        """Add the workspaces; returns the number of files. Files may change or vanish meanwhile."""
        files = 0
        for folder, folders, names in os.walk(directory, onerror=self._leave_out):
            for path in (Path(folder, name) for name in sorted([*folders, *names])):
                files += self._add(path, f"{WORKSPACES}/{path.relative_to(directory)}")
        return files

    def _add(self, path: Path, name: str) -> bool:
        """Add one entry; returns whether it is a file. An error in the middle of a file fails the backup."""
        try:
            if not stat.S_ISREG(path.lstat().st_mode):
                entry: tarfile.TarInfo | None = self._archive.gettarinfo(path, name)
                if entry is not None and (entry.isdir() or entry.issym()):
                    self._archive.addfile(_without_owner(entry))
                return False
            # Do not follow a link that has replaced the file, and do not wait for the writer of a pipe.
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            if error.filename is None:  # the backup itself cannot be written
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
    entry = _without_owner(archive.gettarinfo(arcname=name, fileobj=file))
    # Hard links become separate files, so that each can be extracted alone.
    entry.type, entry.linkname = tarfile.REGTYPE, ""
    entry.size = os.fstat(file.fileno()).st_size
    return entry, _PaddedFile(file, entry.size)


class _PaddedFile(io.BytesIO):
    """Pads a file that is truncated while it is read with zeros, so that the entries after it stay readable."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        super().__init__()
        self._file = file
        self._left = size

    def read(self, size: int | None = -1) -> bytes:
        wanted = self._left if size is None or size < 0 else min(size, self._left)
        self._left -= wanted
        return self._file.read(wanted).ljust(wanted, b"\0")


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove the owner of an entry, who means nothing on another machine."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
