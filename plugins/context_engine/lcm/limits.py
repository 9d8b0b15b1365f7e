"""How large the parts of a context may be, for the window at hand. All in tokens."""

from __future__ import annotations

from dataclasses import dataclass

from .options import Options

_TAIL_SHARE = 0.25
_SUMMARIES_SHARE = 0.20
_LEDGER_SHARE = 0.04
_CHUNK_SHARE = 0.20
_LARGE_SHARE = 0.25
_SMALLEST_LARGE = 300
_DIGEST_SHARE = 0.02
_LEAF_RATIO = 0.12
_CONDENSED_RATIO = 0.25
_SMALLEST_TARGET = 60
_COMFORTABLE_TARGET = 160
"""A small model does not manage to say anything in less, so a small source gets this much..."""
_COMFORTABLE_RATIO = 1 / 3
"""...as far as it is no more than this share of it."""


@dataclass(frozen=True, slots=True)
class Limits:
    threshold: int
    window: int
    goal: int
    """What a compaction aims at."""
    tail: int
    tail_messages: int
    summaries: int
    """All summaries together; beyond this they are condensed, whatever their number."""
    ledger: int
    chunk: int
    """Messages under one leaf."""
    chunk_messages: int
    """A chunk with fewer is left alone unless there is need."""
    fan_in: int
    large: int
    """A message from this size on leaves the context for a digest."""
    digest: int
    _leaf_target: int
    _condensed_target: int

    def leaf_target(self, source_tokens: int) -> int:
        return self._target(source_tokens, _LEAF_RATIO, self._leaf_target)

    def condensed_target(self, source_tokens: int) -> int:
        return self._target(source_tokens, _CONDENSED_RATIO, self._condensed_target)

    @staticmethod
    def _target(source_tokens: int, ratio: float, most: int) -> int:
        comfortable = min(_COMFORTABLE_TARGET, int(source_tokens * _COMFORTABLE_RATIO))
        return _between(_SMALLEST_TARGET, max(comfortable, int(source_tokens * ratio)), most)


def limits_for(threshold: int, window: int, options: Options, *, beside: int = 0) -> Limits:
    """The options are upper bounds; in a small window each part has its share of what the system prompt and the tools,
    which are `beside` the conversation, leave of the threshold."""
    room = max(threshold // 4, threshold - beside)
    summaries = max(2 * _SMALLEST_TARGET, int(room * _SUMMARIES_SHARE))
    return Limits(
        threshold=threshold,
        window=window,
        goal=beside + int(room * options.target),
        tail=min(options.fresh_tail_tokens, int(room * _TAIL_SHARE)),
        tail_messages=options.fresh_tail_messages,
        summaries=summaries,
        ledger=_between(150, int(room * _LEDGER_SHARE), 3_000),
        chunk=max(1, min(options.leaf_chunk_tokens, int(room * _CHUNK_SHARE))),
        chunk_messages=options.leaf_minimum_messages,
        fan_in=options.fan_in,
        large=min(options.large_tokens, max(_SMALLEST_LARGE, int(room * _LARGE_SHARE))),
        digest=_between(100, int(room * _DIGEST_SHARE), 600),
        _leaf_target=min(options.leaf_target_tokens, summaries // 2),
        _condensed_target=min(options.condensed_target_tokens, summaries // 2),
    )


def _between(least: int, wanted: int, most: int) -> int:
    return max(least, min(wanted, most))
