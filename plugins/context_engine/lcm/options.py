"""Settings under `context.options`, and the size limits that follow from them in a given window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from agent.tool import did_you_mean

from .search.semantic import INSTALL, SEMANTIC_MODES, SemanticMode, is_installed


@dataclass(frozen=True, slots=True)
class Options:
    """Settings. Sizes are in tokens and upper bounds: a small window uses a share of itself."""

    threshold: float = 0.50
    """Share of the window at which a conversation is compacted."""
    target: float = 0.50
    """Share of the threshold that a compaction leaves in use."""
    fresh_tail_messages: int = 64
    fresh_tail_tokens: int = 20_000
    leaf_chunk_tokens: int = 20_000
    leaf_minimum_messages: int = 8
    leaf_target_tokens: int = 2_400
    fan_in: int = 4
    condensed_target_tokens: int = 2_000
    large_tokens: int = 25_000
    """A larger message is replaced by a digest at the next compaction."""
    recall_hints: bool = True
    semantic: SemanticMode = "auto"
    """Whether to search by meaning: if installed (`auto`), always, or never."""

    @classmethod
    def read(cls, given: Mapping[str, Any] | None) -> Options:
        """Validate the settings. Raises ValueError with a sentence."""
        known = {field.name: field.default for field in fields(cls)}
        values = dict(given or {})
        for name, value in values.items():
            if name not in known:
                raise ValueError(f"`context.options` has no `{name}`. {did_you_mean(name, known)}")
            if name == "semantic" and isinstance(value, bool):
                values[name] = "on" if value else "off"  # YAML reads `on` and `off` as booleans
            elif wanted := _wanted_instead(name, value, known[name]):
                raise ValueError(f"`context.options.{name}` must be {wanted}, not {value!r}.")
        if values.get("semantic") == "on" and not is_installed():
            raise ValueError(
                f"`context.options.semantic` is on, but its packages are not installed. Install it with {INSTALL}, "
                "or write auto."
            )
        return cls(**values)


def _wanted_instead(name: str, value: Any, default: Any) -> str:
    """Describe the values that fit; empty if this one does."""
    is_number = isinstance(value, float | int) and not isinstance(value, bool)
    if name == "semantic":
        return "" if value in SEMANTIC_MODES else "auto, on or off"
    if isinstance(default, bool):
        return "" if isinstance(value, bool) else "true or false"
    if isinstance(default, float):
        return "" if is_number and 0.05 <= value <= 0.95 else "a number between 0.05 and 0.95"
    least = 2 if name == "fan_in" else 1
    fits = is_number and isinstance(value, int) and value >= least
    return "" if fits else f"a whole number, {least} or more"


_TAIL_SHARE = 0.25
_SUMMARIES_SHARE = 0.20
_LEDGER_SHARE = 0.04
_CHUNK_SHARE = 0.20
_LARGE_SHARE = 0.25
_MIN_LARGE = 300
_DIGEST_SHARE = 0.02
_LEAF_RATIO = 0.12
_CONDENSED_RATIO = 0.25
_MIN_TARGET = 60
_COMFORTABLE_TARGET = 160
"""Tokens that a small source gets, because small models cannot say anything in less,"""
_COMFORTABLE_RATIO = 1 / 3
"""up to this share of the source."""


@dataclass(frozen=True, slots=True)
class Limits:
    threshold: int
    window: int
    beside: int
    """Tokens of system prompt and tools, which each request sends beside the messages."""
    goal: int
    """Tokens that a compaction aims at."""
    tail: int
    tail_messages: int
    summaries: int
    """Tokens of all summaries. More are condensed, even if they are few."""
    ledger: int
    chunk: int
    """Tokens of messages under one leaf."""
    chunk_messages: int
    """A chunk with fewer messages is summarised only if needed."""
    fan_in: int
    large: int
    """A larger message is replaced by a digest."""
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
        return _clamp(_MIN_TARGET, max(comfortable, int(source_tokens * ratio)), most)


def make_limits(threshold: int, window: int, options: Options, *, beside: int = 0) -> Limits:
    room = max(threshold // 4, threshold - beside)
    summaries = max(2 * _MIN_TARGET, int(room * _SUMMARIES_SHARE))
    return Limits(
        threshold=threshold,
        window=window,
        beside=beside,
        goal=beside + int(room * options.target),
        tail=min(options.fresh_tail_tokens, int(room * _TAIL_SHARE)),
        tail_messages=options.fresh_tail_messages,
        summaries=summaries,
        ledger=_clamp(150, int(room * _LEDGER_SHARE), 3_000),
        chunk=max(1, min(options.leaf_chunk_tokens, int(room * _CHUNK_SHARE))),
        chunk_messages=options.leaf_minimum_messages,
        fan_in=options.fan_in,
        large=min(options.large_tokens, max(_MIN_LARGE, int(room * _LARGE_SHARE))),
        digest=_clamp(100, int(room * _DIGEST_SHARE), 600),
        _leaf_target=min(options.leaf_target_tokens, summaries // 2),
        _condensed_target=min(options.condensed_target_tokens, summaries // 2),
    )


def _clamp(least: int, wanted: int, most: int) -> int:
    return max(least, min(wanted, most))
