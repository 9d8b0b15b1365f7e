"""Reading cache markers back, and what must hold of every marked request."""

from __future__ import annotations

from typing import Any

Chat = dict[str, Any]

NATIVE = "anthropic/claude-sonnet-4-5"
OPENROUTER = "openrouter/anthropic/claude-sonnet-4.5"
MARKER: dict[str, Any] = {"type": "ephemeral"}
HOUR: dict[str, Any] = {"type": "ephemeral", "ttl": "1h"}
TOOLS = ({"type": "function", "function": {"name": "a"}}, {"type": "function", "function": {"name": "b"}})


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def marker_of(message: Chat) -> dict[str, Any] | None:
    """Wherever the message carries it."""
    content = message.get("content")
    inside = content[-1] if isinstance(content, list) and content and isinstance(content[-1], dict) else {}
    marker: dict[str, Any] | None = message.get("cache_control") or inside.get("cache_control")
    return marker


def ttls(messages: list[Chat]) -> dict[int, str]:
    """Return the marked messages and the lifetime of each marker."""
    return {
        index: marker.get("ttl", "5m")
        for index, message in enumerate(messages)
        if (marker := marker_of(message)) is not None
    }


def without_marker(marked: Chat, original: Chat) -> Chat:
    """The message as it was: no marker anywhere, text that became a part is text again."""
    plain = {name: value for name, value in marked.items() if name != "cache_control"}
    if isinstance(plain.get("content"), list):
        parts = [
            {name: value for name, value in part.items() if name != "cache_control"}
            if isinstance(part, dict)
            else part
            for part in plain["content"]
        ]
        plain["content"] = parts[0]["text"] if isinstance(original["content"], str) else parts
    return plain


def check_markers(parts: list[Chat]) -> None:
    lifetimes = list(ttls(parts).values())
    assert len(lifetimes) <= 4
    assert lifetimes == sorted(lifetimes), "1h comes before 5m"


def check_nothing_else_changed(marked: list[Chat], original: list[Chat]) -> None:
    for new, old in zip(marked, original, strict=True):
        if marker_of(new) is None:
            assert new is old
        else:
            assert without_marker(new, old) == old
