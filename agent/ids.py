"""Durable ids: unique, usually sortable by creation time, readable in a log line."""

from __future__ import annotations

import hashlib
import secrets
import time

_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id(prefix: str) -> str:
    """`msg_01h8...`: 48 bits of milliseconds, then 80 random bits. Nothing may rely on the order."""
    return _spelled(prefix, (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80))


def id_from(prefix: str, *names: str) -> str:
    """Return the same id for the same names."""
    digest = hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).digest()
    return _spelled(prefix, int.from_bytes(digest[:16]))


def _spelled(prefix: str, number: int) -> str:
    digits = [_CROCKFORD[(number >> shift) & 31] for shift in range(125, -5, -5)]
    return f"{prefix}_{''.join(digits)}"
