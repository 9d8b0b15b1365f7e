"""What stays at the end of a context: the newest messages that fit, whole tool calls, and the newest request."""

from __future__ import annotations

from collections.abc import Sequence

from .reading import Item

Group = list[Item]
"""A message, or calls of tools with their results: stays or goes as a whole."""


def groups_of(said: Sequence[Item]) -> list[Group]:
    groups: list[Group] = []
    for item in said:
        if item.chat["role"] == "tool" and groups:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def parted(said: Sequence[Item], tail_tokens: int, tail_messages: int) -> list[Group]:
    """What is older than the tail, oldest first. The last group and the newest request always stay, even where the
    request lies further back."""
    groups = groups_of(said)
    start = _tail_start(groups, tail_tokens, tail_messages)
    asked = [
        i for i, group in enumerate(groups) if group[0].kind == "said" and group[0].chat["role"] == "user"
    ]
    return [group for i, group in enumerate(groups[:start]) if i not in asked[-1:]]


def _tail_start(groups: Sequence[Group], tokens: int, messages: int) -> int:
    start = max(0, len(groups) - 1)
    room = tokens - sum(map(tokens_of, groups[start:]))
    count = sum(map(len, groups[start:]))
    while start:
        group = groups[start - 1]
        room, count = room - tokens_of(group), count + len(group)
        if room < 0 or count > messages:
            break
        start -= 1
    return start


def tokens_of(group: Group) -> int:
    return sum(item.tokens for item in group)


def first_chunk(older: Sequence[Group], tokens: int) -> int:
    """How many of the oldest groups make a leaf: at least one, and no more tokens than these."""
    for count, group in enumerate(older):
        tokens -= tokens_of(group)
        if tokens < 0 and count:
            return count
    return len(older)
