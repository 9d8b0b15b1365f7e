"""Maps errors of SQLite and the file system to the store errors of `agent.errors`."""

from __future__ import annotations

import errno
import sqlite3

from agent.errors import SearchIndexDamaged, StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreReadOnly

_BY_SQLITE_CODE: dict[int, type[StoreError]] = {
    sqlite3.SQLITE_BUSY: StoreBusy,
    sqlite3.SQLITE_LOCKED: StoreBusy,
    sqlite3.SQLITE_PROTOCOL: StoreBusy,
    sqlite3.SQLITE_FULL: StoreFull,
    sqlite3.SQLITE_IOERR_SHMSIZE: StoreFull,  # the shared memory file cannot grow
    sqlite3.SQLITE_READONLY: StoreReadOnly,
    sqlite3.SQLITE_PERM: StoreReadOnly,
    sqlite3.SQLITE_CANTOPEN: StoreReadOnly,
    # A disk that became read-only, a file size limit or a failing disk.
    sqlite3.SQLITE_IOERR_WRITE: StoreReadOnly,
    sqlite3.SQLITE_IOERR_FSYNC: StoreReadOnly,
    sqlite3.SQLITE_IOERR_TRUNCATE: StoreReadOnly,
    sqlite3.SQLITE_CORRUPT: StoreCorrupt,
    sqlite3.SQLITE_CORRUPT_VTAB: SearchIndexDamaged,  # the search index is the only virtual table
    sqlite3.SQLITE_NOTADB: StoreCorrupt,
}

_BY_ERRNO: dict[int, type[StoreError]] = {
    errno.ENOSPC: StoreFull,
    errno.EDQUOT: StoreFull,
    errno.EACCES: StoreReadOnly,
    errno.EPERM: StoreReadOnly,
    errno.EROFS: StoreReadOnly,
}

_ADVICE: dict[int, str] = {
    sqlite3.SQLITE_IOERR: "The disk failed to read or write; check it.",
}

_PRIMARY_CODE = 0xFF
"""The mask for the primary code in an extended result code."""


def as_store_error(error: sqlite3.Error | OSError | MemoryError) -> StoreError:
    """Return the store error for a foreign error."""
    if isinstance(error, MemoryError):  # a damaged block of the index claims a length that exceeds the memory
        return SearchIndexDamaged("(out of memory)")
    if isinstance(error, OSError):
        return _BY_ERRNO.get(error.errno or 0, StoreError)(str(error))
    code: int = getattr(error, "sqlite_errorcode", 0)
    kind = _BY_SQLITE_CODE.get(code) or _BY_SQLITE_CODE.get(code & _PRIMARY_CODE, StoreError)
    advice = _ADVICE.get(code & _PRIMARY_CODE) if kind is StoreError else None
    return kind(f"{advice} ({error})" if advice else f"({error})")


class translated:
    """Context manager that turns errors of SQLite and the file system into store errors."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, sqlite3.Error | OSError | MemoryError):
            raise as_store_error(error) from error
