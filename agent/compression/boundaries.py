"""Boundaries of a compaction: the head and the tail stay, the middle between them is summarised.

The tail has a token budget and a minimum number of messages, and never starts inside a tool group. One that is too
large is truncated in stages: tool results, other large messages, fewer messages, then everything that is not pinned.
The compressor uses the first stage that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agent.compression.pinned import Pinned, find_pinned
from agent.compression.summary_message import (
    PreviousSummary,
    find_earlier,
    find_foreign,
    is_system,
    side_after_summary,
    side_of,
    with_note,
)
from agent.compression.truncate import SMALLEST_BOUND, fair_cap, truncate
from agent.messages import ChatDict, next_group
from agent.tokens import estimate_message_tokens, estimate_messages_tokens_rough

PROTECT_FIRST_N = 3
_PINNED_SHARE = 0.75
"""Share of the window up to which pinned answers stay whole. The rest is for the next answer and estimation errors."""
_GOAL = 0.6
"""Share of its room that a tail fills after messages were dropped, so that the next turn need not drop more."""

Align = Callable[[Sequence[ChatDict], int], int]
"""Moves a boundary back so that it does not part a call from its results."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Token counts, and a number of messages."""

    window: int
    threshold: int
    tail_budget: int
    reserve: int
    """For the summary with its ledger, and for what is sent beside the messages."""
    least_reserve: int
    """The same for a short summary."""
    protect_last_n: int


@dataclass(frozen=True, slots=True)
class History:
    """The messages of a conversation with complete tool pairs, measured."""

    messages: Sequence[ChatDict]
    sizes: Sequence[int]
    """Tokens of each message. The system prompt counts with its note, so that the note does not move a boundary."""
    earlier: PreviousSummary | None
    foreign: Collection[int]
    tokens: int
    """Tokens of all messages as they were given."""

    @property
    def summarised(self) -> range:
        """Return the indices of the earlier summary."""
        return self.earlier.indices if self.earlier else range(0)


def read_history(given: Sequence[ChatDict], repaired: Sequence[ChatDict]) -> History:
    """Measure messages whose tool pairs were `repaired`, and find the texts of engines among them."""
    earlier = find_earlier(repaired)
    sizes = list(map(estimate_message_tokens, repaired))
    tokens = sum(sizes) if repaired == given else estimate_messages_tokens_rough(given)
    if repaired and is_system(repaired[0]):
        sizes[0] = estimate_message_tokens(with_note(repaired[0]))
    return History(repaired, sizes, earlier, find_foreign(repaired, earlier), tokens)


@dataclass(frozen=True, slots=True)
class Cut:
    """Indices into the message list, and shortened copies of messages that stay."""

    head_end: int
    before_tail: tuple[int, ...]
    tail_start: int
    middle: tuple[int, ...]
    """Messages to summarise, without an earlier summary."""
    stages: tuple[dict[int, ChatDict], ...]
    """Copies, by index. The first stage has those of the head only; each goes further than the one before."""
    tokens: int
    """Tokens of head and tail as they are."""
    least_tokens: int


def find_head(read: History, align: Align) -> tuple[int, int]:
    """Return the end of the head, and the index of the first turn that no summary covers yet."""
    end = align(read.messages, min(PROTECT_FIRST_N, len(read.messages)))
    end = min((end, *read.foreign))
    first = end
    if read.earlier:
        end = min(end, read.earlier.index)
        first = max(end, read.earlier.end)
    while first in read.foreign:
        first += 1
    return end, first


def find_tail(read: History, first: int, limits: Limits, align: Align) -> int:
    """Return where the tail begins: by token budget or by count, whichever protects more.

    `first` is the earliest index a tail may begin at.
    """
    start = len(read.messages)
    room = limits.tail_budget
    while start > first and read.sizes[start - 1] <= room:
        start -= 1
        room -= read.sizes[start]
    start = max(first, min(start, len(read.messages) - limits.protect_last_n))
    return max(first, align(read.messages, start))


def find_cut(read: History, limits: Limits, align: Align, *, strikes: int = 0) -> Cut:
    """`strikes` counts compactions that did not help; each halves what the tail may hold."""
    fitting = _TailFitter(read, limits, align)
    fitting.bound_head()
    fitting.make_room(strikes)
    fitting.match_roles()
    return fitting.cut()


class _TailFitter:
    """Reduces a tail that is too large, step by step."""

    def __init__(self, read: History, limits: Limits, align: Align) -> None:
        self._read = read
        self._messages = read.messages
        self._sizes = list(read.sizes)
        self._limits = limits
        self._align = align
        self._copies: dict[int, ChatDict] = {}
        self._stages: list[dict[int, ChatDict]] = []
        self._head_end, self._first = find_head(read, align)
        self._pinned = self._affordable(find_pinned(read.messages, {*read.summarised, *read.foreign}))
        self._start = find_tail(read, self._first, limits, align)
        self._kept_for_roles: set[int] = set()
        self._ceiling = 0

    def bound_head(self) -> None:
        """Truncate very large messages of the first exchange, which always stays, if they leave the tail no room."""
        exchange = [
            i for i in range(self._head_end) if i not in self._pinned and not is_system(self._messages[i])
        ]
        fixed = sum(self._sizes[: self._head_end]) - sum(self._sizes[i] for i in exchange)
        room = self._limits.threshold - self._limits.reserve - self._limits.tail_budget - fixed
        sizes = [self._sizes[i] for i in exchange]
        if sum(sizes) > room:
            self._bound(exchange, fair_cap(sizes, room, SMALLEST_BOUND))
        self._stages.append(dict(self._copies))

    def make_room(self, strikes: int) -> None:
        limits = self._limits
        beside_tail = sum(self._sizes[: self._head_end]) + limits.reserve
        # Pinned messages may exceed the threshold; some room for the newest messages stays even then.
        pinned = sum(self._sizes[i] for i in self._pinned if i >= self._head_end)
        at_work = min(2 * SMALLEST_BOUND, limits.tail_budget)
        self._ceiling = max(
            limits.tail_budget >> strikes,
            (limits.threshold - beside_tail) >> strikes,
            min(pinned + (at_work >> strikes), int(limits.window * _PINNED_SHARE) - beside_tail),
        )
        least_beside = beside_tail - limits.reserve + limits.least_reserve
        if not strikes and (tail := self._tokens()) + least_beside < limits.threshold:
            # A short summary fits beside it, so the number of messages that is protected need not give way.
            self._ceiling = max(self._ceiling, tail)
        self._reach_pinned()
        last_group = self._align(self._messages, len(self._messages) - 1)
        self._shrink(lambda i: self._is_result(i) and i < last_group, SMALLEST_BOUND)
        self._shrink(self._is_result, SMALLEST_BOUND)
        self._shrink(lambda i: not self._is_result(i), max(SMALLEST_BOUND, self._ceiling // 4))
        self._give_way()
        self._shrink(lambda i: True, SMALLEST_BOUND, fairly=False)

    def match_roles(self) -> None:
        """Keep one more message if the summary's role then differs from both neighbours."""
        begin = self._kept()[0] if self._kept() else len(self._messages)
        wanted = side_after_summary(self._messages[: self._head_end])
        candidate = self._align(self._messages, begin - 1)
        if begin == len(self._messages) or candidate < self._first:
            return
        if side_of(self._messages[begin]) == wanted or side_of(self._messages[candidate]) != wanted:
            return
        cost = sum(self._sizes[candidate:begin])
        if cost <= self._limits.tail_budget and cost + self._tokens() <= self._ceiling:
            if begin == self._start:
                self._start = candidate
            else:
                self._kept_for_roles.update(range(candidate, begin))

    def cut(self) -> Cut:
        kept, known = set(self._kept()), self._read.summarised
        middle = (i for i in range(self._head_end, self._start) if i not in kept and i not in known)
        stay = [*range(self._head_end), *kept]
        return Cut(
            head_end=self._head_end,
            before_tail=tuple(i for i in self._kept() if i < self._start),
            tail_start=self._start,
            middle=tuple(middle),
            stages=tuple(self._stages),
            tokens=sum(self._read.sizes[i] for i in stay),
            least_tokens=sum(self._sizes[i] for i in stay),
        )

    def _affordable(self, pinned: Pinned) -> frozenset[int]:
        """Return the pinned messages that fit the window. The newest request always stays pinned."""
        system = (size for size, each in zip(self._sizes, self._messages, strict=True) if is_system(each))
        room = int(self._limits.window * _PINNED_SHARE) - self._limits.reserve - sum(system)
        kept: set[int] = set()
        for index in (pinned.request, pinned.note, pinned.answer, pinned.offer):
            if index is not None and index not in kept:
                room -= self._sizes[index]
                if room >= 0 or index == pinned.request:
                    kept.add(index)
        return frozenset(kept)

    def _reach_pinned(self) -> None:
        """Start the tail at a pinned message if that makes the tail only a little larger."""
        for index in sorted(self._pinned, reverse=True):
            if self._first <= index < self._start and sum(self._sizes[index:]) <= self._ceiling // 2:
                self._start = index

    def _give_way(self) -> None:
        """Drop groups from the front of the tail, except the last group, until the next turns have room."""
        if self._tokens() <= self._ceiling:
            return
        goal, end = self._ceiling * _GOAL, next_group(self._messages, self._start)
        while self._tokens() > goal and end < len(self._messages):
            self._start, end = end, next_group(self._messages, end)

    def _shrink(self, which: Callable[[int], bool], smallest: int, *, fairly: bool = True) -> None:
        """Truncate the chosen messages if the tail is too large. `fairly`: the largest first, and only as needed."""
        if self._tokens() <= self._ceiling:
            return
        chosen = [i for i in self._kept() if i not in self._pinned and which(i)]
        sizes = [self._sizes[i] for i in chosen]
        room = self._ceiling - self._tokens() + sum(sizes)
        self._bound(chosen, fair_cap(sizes, room, smallest) if fairly else smallest)
        self._stages.append(dict(self._copies))

    def _bound(self, indices: Sequence[int], cap: int) -> None:
        for i in indices:
            if self._sizes[i] > cap and (copy := truncate(self._messages[i], cap)) is not self._messages[i]:
                self._copies[i] = copy
                self._sizes[i] = estimate_message_tokens(copy)

    def _kept(self) -> list[int]:
        """Return the indices that stay behind the head.

        A reply stays with its pinned answer if another answer would follow: roles must alternate.
        """
        before_tail = sorted(i for i in self._pinned | self._kept_for_roles if self._first <= i < self._start)
        replies = {
            index + 1
            for index, following in pairwise((*before_tail, self._start))
            if self._roles(index, index + 1, following) == ("assistant", "user", "assistant")
        }
        return [*sorted({*before_tail, *replies}), *range(self._start, len(self._messages))]

    def _tokens(self) -> int:
        return sum(self._sizes[i] for i in self._kept())

    def _roles(self, *indices: int) -> tuple[str, ...]:
        return tuple(self._messages[i]["role"] for i in indices if i < len(self._messages))

    def _is_result(self, index: int) -> bool:
        return self._messages[index].get("role") == "tool"
