"""A conversation's folder. No path leads out of it.

Every component of a path is opened on its own, relative to the one before and without following links; a link
put in place between a check and its use leads nowhere. All verbs block: call them in a worker thread.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath

from agent.errors import ToolError
from agent.tool import did_you_mean

MAX_FILE_BYTES = 10_000_000

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a named pipe would wait for its other end.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_REASONS = {
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "leads through something that is not a folder",
    errno.EISDIR: "is a folder, not a file",
    errno.ELOOP: "is a symbolic link; links are not followed here",
    errno.EACCES: "may not be used: permission denied",
    errno.EPERM: "may not be used: permission denied",
    errno.ENAMETOOLONG: "is too long a name",
    errno.ENOSPC: "cannot be written: the disk is full",
    errno.EDQUOT: "cannot be written: the disk quota is used up",
    errno.EROFS: "cannot be written: the disk is read-only",
}

_appending = threading.Lock()
"""An append reads, extends and replaces the file; two at once would lose one of them."""


class Workspace:
    """The folder of one conversation, made when first needed."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    def prepare(self) -> None:
        """Create the folder, for its owner only, with missing parents."""
        with _explained("the workspace"):
            _make_private(self.root)

    def open_folder(self, path: str = ".") -> int:
        """Return a descriptor of the folder at this path. The caller closes it."""
        with self._open_folder(path, _components(path), create=False) as folder:
            return os.dup(folder)

    def read(self, path: str) -> bytes:
        """Return the whole file, up to MAX_FILE_BYTES."""
        with self._open_parent(path) as (folder, name):
            try:
                return _read(folder, name)
            except FileNotFoundError as exc:
                names = sorted(os.listdir(folder))[:50]  # noqa: PTH208 - a descriptor, not a path
                hint = did_you_mean(name, names) if names else "Its folder is empty."
                raise ToolError(f"`{path}` does not exist. {hint}") from exc

    def write(self, path: str, data: bytes, *, append: bool = False) -> None:
        """Replace or extend a file as a whole: readers see the old or the new content."""
        with self._open_parent(path, create=True) as (folder, name):
            if not append:
                _replace(folder, name, data)
                return
            with _appending:
                before = b""
                with suppress(FileNotFoundError):
                    before = _read(folder, name)
                _replace(folder, name, before + data)

    def write_new(self, path: str, data: bytes) -> str:
        """Write a new file, under the next free name if need be, and return its path."""
        wanted = PurePosixPath(path)
        with self._open_parent(path, create=True) as (folder, _):
            number = 1
            while True:
                name = wanted.name if number == 1 else f"{wanted.stem}-{number}{wanted.suffix}"
                with suppress(FileExistsError):
                    _create(folder, name, data, mode=0o600)
                    return str(wanted.with_name(name))
                number += 1

    @contextmanager
    def _open_parent(self, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """Yield a descriptor of the file's folder, and the file's name."""
        *parents, name = _components(path) or [""]
        if not name:
            raise ToolError(f"`{path}` is a folder; give the path of a file in it.")
        with self._open_folder(path, parents, create=create) as folder:
            yield folder, name

    @contextmanager
    def _open_folder(self, path: str, components: list[str], *, create: bool) -> Iterator[int]:
        with _explained(path), ExitStack() as opened:
            _make_private(self.root)
            folder = os.open(self.root, _FOLDER)
            opened.callback(os.close, folder)
            for name in components:
                folder = _open_subfolder(folder, name, create=create)
                opened.callback(os.close, folder)
            yield folder


def _components(path: str) -> list[str]:
    """Split a path into names. Refuses what could lead out of the workspace or cannot be a name."""
    if not path.strip():
        raise ToolError("the path is empty; give one relative to the workspace, such as `notes/today.md`.")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in path):
        raise ToolError("the path holds a control character; use printable ones only.")
    if path.startswith(("/", "~")):
        raise ToolError(
            f"`{path}` is outside the workspace; give a path relative to it, such as `notes/today.md`."
        )
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        raise ToolError(f"`{path}` holds `..`; paths start at the workspace and never leave it.")
    return names


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        _make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _open_subfolder(parent: int, name: str, *, create: bool) -> int:
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, mode=0o700, dir_fd=parent)
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except NotADirectoryError as exc:
        # Linux reports a link this way too when a folder is asked for.
        if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, "a link in the path") from exc
        raise


def _read(folder: int, name: str) -> bytes:
    _refuse_special(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    with os.fdopen(os.open(name, _READ, dir_fd=folder), "rb") as file:
        # Again on what was really opened: it may have been exchanged in between.
        _refuse_special(os.fstat(file.fileno()).st_mode)
        data = file.read(MAX_FILE_BYTES + 1)
    _refuse_large(data)
    return data


def _replace(folder: int, name: str, data: bytes) -> None:
    _refuse_large(data)
    mode = 0o600
    with suppress(FileNotFoundError):
        existing = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        _refuse_special(existing)
        mode = stat.S_IMODE(existing) & 0o777
    draft = f".{secrets.token_hex(8)}.draft"
    _create(folder, draft, data, mode=mode)
    try:
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(draft, dir_fd=folder)
        raise


def _create(folder: int, name: str, data: bytes, *, mode: int) -> None:
    descriptor = os.open(name, _CREATE, mode, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        os.unlink(name, dir_fd=folder)
        raise


def _refuse_special(mode: int) -> None:
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, "a link")
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "a folder")
    if not stat.S_ISREG(mode):
        raise ToolError("that is a pipe, socket or device, not a file.")


def _refuse_large(data: bytes) -> None:
    if len(data) > MAX_FILE_BYTES:
        raise ToolError(f"files of more than {MAX_FILE_BYTES:,} bytes are not handled here.")


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Turn an error of the system into a sentence for the model."""
    try:
        yield
    except OSError as exc:
        reason = _REASONS.get(exc.errno or 0) or f"cannot be used ({exc.strerror})"
        raise ToolError(f"`{path}` {reason}.") from exc
