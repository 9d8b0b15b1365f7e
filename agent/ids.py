"""Durable ids: sortable by creation in the usual case, unique always, readable in a log line."""

from __future__ import annotations

import secrets
import time

_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id(prefix: str) -> str:
    """`msg_01h8...`: 48 bits of milliseconds, then 80 random bits. Nothing may rely on the order."""
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    digits = [_CROCKFORD[(number >> shift) & 31] for shift in range(125, -5, -5)]
    return f"{prefix}_{''.join(digits)}"
