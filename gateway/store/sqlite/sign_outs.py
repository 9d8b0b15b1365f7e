"""Cookies of the web chat that were signed out, so that a copy of one is worthless, also after a restart."""

from __future__ import annotations

import sqlite3

from gateway.store.sqlite.access import Run


class StoredSignOuts:
    def __init__(self, read: Run, write: Run) -> None:
        self._read = read
        self._write = write

    async def add(self, digest: str, *, until: float, now: float) -> None:
        """Note the cookie; forget those that would have ended by now."""
        await self._write(_add, digest, until, now)

    async def all(self) -> set[str]:
        return await self._read(_all)


def _add(connection: sqlite3.Connection, digest: str, until: float, now: float) -> None:
    connection.execute("DELETE FROM sign_outs WHERE until <= ?", (now,))
    connection.execute("INSERT OR REPLACE INTO sign_outs (digest, until) VALUES (?, ?)", (digest, until))


def _all(connection: sqlite3.Connection) -> set[str]:
    return {digest for (digest,) in connection.execute("SELECT digest FROM sign_outs")}
