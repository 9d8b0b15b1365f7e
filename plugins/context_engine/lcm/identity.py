"""Which message is which, whatever the host does with the list: replay, restart, branch, undo, compaction.

The host's durable `message_id` tells. Without one, a message is named by what it says and by how many messages before
it, in the list or beneath the summaries in it, say exactly the same.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from agent.messages import ChatDict

from .messages import OF_THE_HOST
from .summaries import message_keys_under

_BY_CONTENT = "="


def identities(messages: Iterable[ChatDict], said_before: Callable[[str], int]) -> list[str]:
    """One for each. `said_before` tells how often a fingerprint occurs beneath the summaries."""
    seen: Counter[str] = Counter()
    return [str(each.get("message_id") or _by_content(each, seen, said_before)) for each in messages]


def counter_beneath(
    connection: sqlite3.Connection, conversation: int, summaries: Sequence[int], copied: Iterable[int]
) -> Callable[[str], int]:
    """Counts messages without an id that stand in the list as a summary or as a copy. It looks only where a text was
    ever said before, which is rare."""
    beneath, walked = set(copied), False

    def said_before(fingerprint: str) -> int:
        rows = connection.execute(
            "SELECT key FROM messages WHERE conversation = ? AND identity BETWEEN ? AND ?",
            (conversation, f"{_BY_CONTENT}{fingerprint}.", f"{_BY_CONTENT}{fingerprint}.:"),
        ).fetchall()
        nonlocal walked
        if rows and not walked:
            walked = True
            beneath.update(key for summary in summaries for key in message_keys_under(connection, summary))
        return sum(row["key"] in beneath for row in rows)

    return said_before


def _by_content(message: ChatDict, seen: Counter[str], said_before: Callable[[str], int]) -> str:
    fingerprint = _fingerprint(message)
    if fingerprint not in seen:
        seen[fingerprint] = said_before(fingerprint)
    seen[fingerprint] += 1
    return f"{_BY_CONTENT}{fingerprint}.{seen[fingerprint]}"


def _fingerprint(message: ChatDict) -> str:
    said = {key: value for key, value in message.items() if key not in OF_THE_HOST}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:24]
