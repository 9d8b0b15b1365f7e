"""Whoever reads a thing, changes it and writes it back takes turns with others who do."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


def turn_on(key: str) -> asyncio.Lock:
    """The lock for this key, shared by everybody who holds or awaits it and gone after them."""
    lock = _locks.get(key)
    if lock is None:
        lock = _locks[key] = asyncio.Lock()
    return lock
