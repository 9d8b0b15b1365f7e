"""Anthropic's prompt cache: writes at markers, reads by looking back from them, entries that expire.

A request is a row of blocks in the order tools, system, messages. A marker (`cache_control`) writes the
prefix that ends at its block, if the prefix is long enough. A read looks from each marker back over at most
20 blocks (a run of tool_use blocks counts once, so does a run of tool_result blocks) for a prefix written
before. The longest one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from typing import Literal

Ttl = Literal["5m", "1h"]
SECONDS: dict[Ttl, float] = {"5m": 300.0, "1h": 3600.0}
LOOKBACK = 20


@dataclass(frozen=True, slots=True)
class Block:
    """`content` is all that must be equal for a hit; the marker is not part of it."""

    content: str
    tokens: int
    kind: str = "text"
    marker: Ttl | None = None


@dataclass(frozen=True, slots=True)
class Accounting:
    read: int
    written_5m: int
    written_1h: int
    fresh: int
    """Tokens after the last marker: paid in full."""


@dataclass(slots=True)
class _Entry:
    ttl: Ttl
    expires: float


class PromptCache:
    def __init__(
        self, *, clock: Callable[[], float], minimum_tokens: int, runs_count_once: bool = True
    ) -> None:
        """`runs_count_once` is Anthropic's own way to look back; others count every block."""
        self._clock = clock
        self._run_kinds = ("tool_use", "tool_result") if runs_count_once else ()
        self._minimum = minimum_tokens
        self._entries: dict[str, _Entry] = {}

    def account(self, blocks: Sequence[Block]) -> Accounting:
        """Reads and writes for one request; its start is when entries begin to live and are refreshed."""
        now = self._clock()
        prefixes = _prefixes(blocks)
        tokens = list(accumulate(block.tokens for block in blocks))
        markers = [at for at, block in enumerate(blocks) if block.marker and tokens[at] >= self._minimum]
        hit = max((self._look_back(blocks, prefixes, at, now) for at in markers), default=-1)
        written: dict[Ttl, int] = {"5m": 0, "1h": 0}
        at_end = hit
        for at in markers:
            if at > hit:
                ttl = blocks[at].marker or "5m"
                written[ttl] += tokens[at] - (tokens[at_end] if at_end >= 0 else 0)
                self._entries[prefixes[at]] = _Entry(ttl, now + SECONDS[ttl])
                at_end = at
        for at in {hit, *(at for at in markers if at < hit)}:
            self._refresh(prefixes[at] if at >= 0 else "", now)
        read = tokens[hit] if hit >= 0 else 0
        total = tokens[-1] if tokens else 0
        return Accounting(read, written["5m"], written["1h"], total - read - sum(written.values()))

    def _look_back(self, blocks: Sequence[Block], prefixes: Sequence[str], marker: int, now: float) -> int:
        """The position of the longest live prefix within reach of this marker, or -1."""
        steps = 0
        for at in range(marker, -1, -1):
            same_run = at < marker and blocks[at].kind == blocks[at + 1].kind
            if not (same_run and blocks[at].kind in self._run_kinds):
                steps += 1
            if steps > LOOKBACK:
                break
            entry = self._entries.get(prefixes[at])
            if entry is not None and entry.expires > now:
                return at
        return -1

    def _refresh(self, prefix: str, now: float) -> None:
        entry = self._entries.get(prefix)
        if entry is not None and entry.expires > now:
            entry.expires = now + SECONDS[entry.ttl]


def _prefixes(blocks: Sequence[Block]) -> list[str]:
    """A digest of everything up to and including each block."""
    digest = sha256()
    digests = []
    for block in blocks:
        digest.update(f"{len(block.content)}:{block.content}".encode())
        digests.append(digest.hexdigest())
    return digests
