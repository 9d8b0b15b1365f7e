"""What stays at the end of a context: the newest messages that fit, whole tool calls, and the newest request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .limits import Limits
from .reading import Item

Group = list[Item]
"""A message, or calls of tools with their results: stays or goes as a whole."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What was said, oldest first."""

    older: list[Group]
    """May be summarised, in this order."""
    request: Group
    """The newest request, where it lies too far back to be part of the tail; else empty."""
    tail: list[Group]

    @property
    def kept(self) -> list[Item]:
        return [*self.request, *(item for group in self.tail for item in group)]


def groups_of(said: Sequence[Item]) -> list[Group]:
    groups: list[Group] = []
    for item in said:
        if item.chat["role"] == "tool" and groups:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def parted(said: Sequence[Item], limits: Limits) -> Parts:
    """The tail is bounded by tokens and by count; the last group and the newest request always stay."""
    groups = groups_of(said)
    start = _tail_start(groups, limits)
    newest = max((i for i, group in enumerate(groups) if group[0].chat["role"] == "user"), default=start)
    if newest >= start:
        return Parts(groups[:start], [], groups[start:])
    return Parts([*groups[:newest], *groups[newest + 1 : start]], groups[newest], groups[start:])


def _tail_start(groups: Sequence[Group], limits: Limits) -> int:
    start = max(0, len(groups) - 1)
    room = limits.tail - sum(map(tokens_of, groups[start:]))
    count = sum(map(len, groups[start:]))
    while start:
        group = groups[start - 1]
        room, count = room - tokens_of(group), count + len(group)
        if room < 0 or count > limits.tail_messages:
            break
        start -= 1
    return start


def tokens_of(group: Group) -> int:
    return sum(item.tokens for item in group)


def first_chunk(older: Sequence[Group], limits: Limits) -> int:
    """How many of the oldest groups make a leaf: at least one, and no more tokens than a chunk has."""
    room = limits.chunk
    for count, group in enumerate(older):
        room -= tokens_of(group)
        if room < 0 and count:
            return count
    return len(older)
