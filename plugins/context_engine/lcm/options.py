"""What can be set under `context.options` when `context.engine` is `lcm`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, cast

from agent.tool import did_you_mean

from .meaning import INSTALL, WANTED, Wanted, is_installed


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes are in tokens. They are upper bounds: a small window makes do with a share of itself."""

    threshold: float = 0.50
    """The share of the window from which the conversation is compacted."""
    target: float = 0.50
    """The share of the threshold that a compaction leaves in use, so that the next one is far off."""
    fresh_tail_messages: int = 64
    fresh_tail_tokens: int = 20_000
    leaf_chunk_tokens: int = 20_000
    leaf_minimum_messages: int = 8
    leaf_target_tokens: int = 2_400
    fan_in: int = 4
    condensed_target_tokens: int = 2_000
    large_tokens: int = 25_000
    """A tool's result or a message from this size on leaves the context for a digest at the next compaction."""
    recall_hints: bool = True
    semantic: Wanted = "auto"
    """Whether questions are searched by meaning, too: if the extra is installed, always, or never."""

    @classmethod
    def read(cls, given: Mapping[str, Any] | None) -> Options:
        """Raises ValueError with a sentence for what is not understood."""
        known = {field.name: field for field in fields(cls)}
        for name, value in (given or {}).items():
            if name not in known:
                raise ValueError(f"`context.options` has no `{name}`. {did_you_mean(name, known)}")
            if name != "semantic":
                _check(name, value, type(known[name].default))
        return cls(**{**(given or {}), "semantic": _semantic((given or {}).get("semantic", "auto"))})


def _semantic(value: Any) -> Wanted:
    """YAML reads `on` and `off` as true and false."""
    wanted = {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
    if wanted not in WANTED:
        raise ValueError(f"`context.options.semantic` must be auto, on or off, not {value!r}.")
    if wanted == "on" and not is_installed():
        raise ValueError(
            f"`context.options.semantic` is on, and what it needs is not installed. Install it with {INSTALL}, or "
            "write auto."
        )
    return cast(Wanted, wanted)


_SHARES = ("threshold", "target")


def _check(name: str, value: Any, kind: type) -> None:
    if kind is bool:
        wrong = "" if isinstance(value, bool) else "true or false"
    elif name in _SHARES:
        fits = isinstance(value, float | int) and not isinstance(value, bool) and 0.05 <= value <= 0.95
        wrong = "" if fits else "a number between 0.05 and 0.95"
    else:
        least = 2 if name == "fan_in" else 1
        fits = isinstance(value, int) and not isinstance(value, bool) and value >= least
        wrong = "" if fits else f"a whole number, {least} or more"
    if wrong:
        raise ValueError(f"`context.options.{name}` must be {wrong}, not {value!r}.")
