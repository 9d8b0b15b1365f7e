"""Where a conversation is cut: a head that stays, a middle to be summarised, a tail that stays.

The tail is found walking back from the end until its token budget is used up, with a minimum number of messages. It
never begins inside a tool group and always holds the newest request of the user. Where that lies so far back that
everything since would not fit, the request alone is kept, ahead of the tail, and what lies between is summarised too.

A tail that is too large even so is made to fit, in this order: oversized tool results are bounded, the newest last;
then single messages that outweigh the others; then the minimum number gives way; then everything but the newest request
is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.compression.bounding import SMALLEST_BOUND, bound, fair_cap
from agent.compression.summary_message import Earlier, is_system, side_after_summary, side_of
from agent.messages import ChatDict
from agent.tokens import estimate_message_tokens
from agent.tool_pairs import align_backward, next_group

PROTECT_FIRST_N = 3
"""The system prompt and the first exchange."""


@dataclass(frozen=True, slots=True)
class Limits:
    """In tokens, but for the last."""

    threshold: int
    tail_budget: int
    reserve: int
    """For the summary with its ledger, and for what is sent beside the messages."""
    protect_last_n: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Indices into the message list, and bounded copies of messages that stay."""

    head_end: int
    request: range
    """Kept ahead of the tail; empty where the newest request is in the tail or the head."""
    tail_start: int
    middle: tuple[int, ...]
    """What is to be summarised; an earlier summary is no part of it."""
    bounded: dict[int, ChatDict]


def find_tail(messages: Sequence[ChatDict], sizes: Sequence[int], first: int, limits: Limits) -> int:
    """By budget or by count, whichever protects more. `first` is the earliest index a tail may begin at."""
    start = len(messages)
    room = limits.tail_budget
    while start > first and sizes[start - 1] <= room:
        start -= 1
        room -= sizes[start]
    start = max(first, min(start, len(messages) - limits.protect_last_n))
    return max(first, align_backward(messages, start))


def find_head(messages: Sequence[ChatDict], earlier: Earlier | None) -> tuple[int, int]:
    """Where the head ends, and where the turns begin that no summary covers yet."""
    end = align_backward(messages, min(PROTECT_FIRST_N, len(messages)))
    if earlier is None:
        return end, end
    end = min(end, earlier.index)
    return end, max(end, earlier.end)


def find_cut(
    messages: Sequence[ChatDict],
    sizes: Sequence[int],
    earlier: Earlier | None,
    limits: Limits,
    *,
    strikes: int = 0,
) -> Cut:
    """`strikes` counts compactions that did not help; each halves what the tail may hold."""
    fitting = _Fitting(messages, sizes, earlier, limits)
    fitting.bound_head()
    fitting.make_room(strikes)
    fitting.match_roles()
    return fitting.cut()


class _Fitting:
    """Makes a tail fit, step by step."""

    def __init__(
        self, messages: Sequence[ChatDict], sizes: Sequence[int], earlier: Earlier | None, limits: Limits
    ) -> None:
        self._messages = messages
        self._sizes = list(sizes)
        self._earlier = earlier
        self._limits = limits
        self._bounded: dict[int, ChatDict] = {}
        self._head_end, self._first = find_head(messages, earlier)
        self._newest = _newest_request(messages, earlier)
        self._start = find_tail(messages, sizes, self._first, limits)
        self._request = range(self._start, self._start)
        self._ceiling = 0

    def bound_head(self) -> None:
        """The first exchange stays for ever, so a giant in it must not: bound it where it leaves the tail no room."""
        exchange = [
            i for i in range(self._head_end) if i != self._newest and not is_system(self._messages[i])
        ]
        fixed = sum(self._sizes[: self._head_end]) - sum(self._sizes[i] for i in exchange)
        room = self._limits.threshold - self._limits.reserve - self._limits.tail_budget - fixed
        sizes = [self._sizes[i] for i in exchange]
        if sum(sizes) > room:
            self._bound(exchange, fair_cap(sizes, room, SMALLEST_BOUND))

    def make_room(self, strikes: int) -> None:
        limits = self._limits
        beside_tail = sum(self._sizes[: self._head_end]) + limits.reserve
        self._ceiling = max(limits.tail_budget, (limits.threshold - beside_tail) >> strikes)
        self._place_request()
        last_group = align_backward(self._messages, len(self._messages) - 1)
        if self._is_over():
            self._shrink(lambda i: self._is_result(i) and i < last_group, SMALLEST_BOUND)
        if self._is_over():
            self._shrink(self._is_result, SMALLEST_BOUND)
        if self._is_over():
            self._shrink(lambda i: not self._is_result(i), max(SMALLEST_BOUND, self._ceiling // 4))
        self._give_way()
        if self._is_over():
            self._bound([i for i in self._kept() if i != self._newest], SMALLEST_BOUND)

    def match_roles(self) -> None:
        """One more message is kept where that lets the summary have a role of its own between its neighbours."""
        begin = self._request.start if self._request else self._start
        wanted = side_after_summary(self._messages[: self._head_end])
        candidate = align_backward(self._messages, begin - 1)
        if candidate < self._first or side_of(self._messages[begin]) == wanted:
            return
        cost = sum(self._sizes[candidate:begin])
        fits = cost <= self._limits.tail_budget and cost + self._tokens() <= self._ceiling
        if fits and side_of(self._messages[candidate]) == wanted:
            if self._request:
                self._request = range(candidate, self._request.stop)
            else:
                self._start = candidate
                self._request = range(candidate, candidate)

    def cut(self) -> Cut:
        before_request = [*range(self._head_end, self._request.start)]
        if self._earlier:
            before_request = [
                *range(self._head_end, self._earlier.index),
                *range(self._earlier.end, self._request.start),
            ]
        return Cut(
            head_end=self._head_end,
            request=self._request,
            tail_start=self._start,
            middle=(*before_request, *range(self._request.stop, self._start)),
            bounded=self._bounded,
        )

    def _place_request(self) -> None:
        if self._newest is None or not self._first <= self._newest < self._start:
            return
        if sum(self._sizes[self._newest :]) <= self._ceiling // 2:
            self._start = self._newest
            self._request = range(self._start, self._start)
        else:
            self._request = range(self._newest, self._newest + 1)

    def _give_way(self) -> None:
        """Groups leave the tail from its front, down to the last one."""
        excess = self._tokens() - self._ceiling
        while excess > 0 and (end := next_group(self._messages, self._start)) < len(self._messages):
            leaving = range(self._start, end)
            excess -= sum(self._sizes[i] for i in leaving if i != self._newest)
            self._start = end
            if self._newest is not None and self._newest in leaving:
                self._request = range(self._newest, self._newest + 1)
            elif not self._request:
                self._request = range(end, end)

    def _shrink(self, which: Callable[[int], bool], smallest: int) -> None:
        chosen = [i for i in self._kept() if i != self._newest and which(i)]
        sizes = [self._sizes[i] for i in chosen]
        room = self._ceiling - self._tokens() + sum(sizes)
        self._bound(chosen, fair_cap(sizes, room, smallest))

    def _bound(self, indices: Sequence[int], cap: int) -> None:
        for i in indices:
            if self._sizes[i] > cap and (copy := bound(self._messages[i], cap)) is not self._messages[i]:
                self._bounded[i] = copy
                self._sizes[i] = estimate_message_tokens(copy)

    def _kept(self) -> list[int]:
        return [*self._request, *range(self._start, len(self._messages))]

    def _tokens(self) -> int:
        return sum(self._sizes[i] for i in self._kept())

    def _is_over(self) -> bool:
        return self._tokens() > self._ceiling

    def _is_result(self, index: int) -> bool:
        return self._messages[index].get("role") == "tool"


def _newest_request(messages: Sequence[ChatDict], earlier: Earlier | None) -> int | None:
    known = range(earlier.index, earlier.end) if earlier else range(0)
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("role") == "user" and index not in known:
            return index
    return None
