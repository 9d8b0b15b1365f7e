"""The chart of tokens in the context window, call by call, with every compaction.

The chart is as wide as the page: horizontal positions are in thousandths or per cent, vertical ones in pixels, so text
keeps its size on a phone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gateway.platforms.web.dashboard.charts import element, linear
from gateway.platforms.web.dashboard.transcript import REASONS
from gateway.platforms.web.templating import local_time
from gateway.store.reports import ContextSample, SessionInfo

MOST_POINTS = 1_000
_HEIGHT, _TOP, _BOTTOM = 260, 22, 232
_WIDTH = 1_000.0
_MAX_MARKED, _MAX_NUMBERED = 100, 12
"""With more drops, dots or numbers would overlap and are omitted."""
_MARGIN = 1.05
_STEP = 0.8
"""Share of the width of one call."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A horizontal line at which a compaction happens."""

    tokens: int
    share: float
    what: str


@dataclass(frozen=True, slots=True)
class ContextWindow:
    model: str
    tokens: int
    limits: Sequence[Limit]


@dataclass(frozen=True, slots=True)
class SessionSegment:
    """One session: a row of the table and a segment of the curve."""

    number: int
    session: SessionInfo
    calls: list[ContextSample]

    @property
    def reason(self) -> str:
        return REASONS[self.session.reason]

    @property
    def when(self) -> str:
        return local_time(self.session.created_at)

    @property
    def highest(self) -> int:
        return max((call.tokens for call in self.calls), default=0)


def session_segments(
    sessions: Sequence[SessionInfo], line: Sequence[str], calls: Sequence[ContextSample]
) -> list[SessionSegment]:
    """Return the sessions of this line that have calls or begin with a compaction."""
    by_session: dict[str, list[ContextSample]] = {}
    for call in calls:
        by_session.setdefault(call.session_id, []).append(call)
    on_line = set(line)
    return [
        SessionSegment(number, session, by_session.get(session.id, []))
        for number, session in enumerate(sessions, start=1)
        if session.id in on_line and (session.id in by_session or session.compaction)
    ]


def render_context_chart(shown: Sequence[SessionSegment], window: ContextWindow) -> Markup:
    """Draw the chart."""
    steps = sum(len(segment.calls) + (segment.session.compaction is not None) for segment in shown)
    drops = sum(segment.session.compaction is not None for segment in shown)
    plot = _Plot(window, _peak(shown), steps, drops)
    for segment in shown:
        plot.add(segment)
    return plot.picture(shown)


def downsample(calls: Sequence[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Reduce (position, tokens) to at most `most` points, but not below two. Keep the first, the last, and the lowest
    and highest of each part, so that no peak is lost."""
    if len(calls) <= max(most, 2):
        return list(calls)
    pieces = max(1, (most - 2) // 2)
    inner = calls[1:-1]
    kept = [calls[0]]
    for number in range(pieces):
        piece = inner[number * len(inner) // pieces : (number + 1) * len(inner) // pieces]
        if piece:
            ends = {min(piece, key=_tokens), max(piece, key=_tokens)}
            kept += sorted(ends)
    return [*kept, calls[-1]]


def _tokens(call: tuple[int, int]) -> int:
    return call[1]


def _peak(shown: Sequence[SessionSegment]) -> int:
    before = (segment.session.compaction.tokens_before for segment in shown if segment.session.compaction)
    return max([0, *before, *(segment.highest for segment in shown)])


class _Plot:
    """Draws the segments from left to right."""

    def __init__(self, window: ContextWindow, peak: int, steps: int, drops: int) -> None:
        self._window = window
        self._drops_in_all = drops
        self._steps = steps
        top = max(peak * _MARGIN, window.tokens * 0.95, 1.0)
        self._x = linear((0, max(steps - 1, 1)), (0.0, _WIDTH))
        self._y = linear((0.0, top), (float(_BOTTOM), float(_TOP)))
        self._at = 0
        self._half_a_step = _WIDTH / max(steps - 1, 1) / 2
        self._points: list[tuple[float, float]] = []
        self._landed: tuple[float, float] | None = None
        """The point after the last compaction, which has its own mark."""
        self._areas: list[str] = []
        self._curves: list[str] = []
        self._drops: list[str] = []
        self._marks: list[Markup] = []

    def add(self, segment: SessionSegment) -> None:
        if segment.session.compaction:
            self._drop(
                segment, segment.session.compaction.tokens_before, segment.session.compaction.tokens_after
            )
        elif segment.session.parent_id is not None:
            self._end_curve()  # a reset or a branch: the curve is interrupted
        places = [(self._at + number, call.tokens) for number, call in enumerate(segment.calls)]
        share = MOST_POINTS * len(places) // max(self._steps, 1)
        most = max(4, share) if self._steps > MOST_POINTS else len(places)
        self._points += [(self._x(at), self._y(tokens)) for at, tokens in downsample(places, most)]
        self._at += len(places)

    def picture(self, shown: Sequence[SessionSegment]) -> Markup:
        self._end_curve()
        curve = element(
            "svg",
            element("path", d=" ".join(self._areas), class_="area"),
            element("path", d=" ".join(self._curves), class_="curve"),
            element("path", d=" ".join(self._drops), class_="drop"),
            viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT}",
            preserveAspectRatio="none",
            width="100%",
            height=_HEIGHT,
        )
        return element(
            "svg",
            element("title", "Tokens in the window, call by call", id="window-title"),
            element("desc", self._description(shown), id="window-desc"),
            *self._limits(),
            curve,
            *self._marks,
            *self._times(shown),
            role="img",
            aria_labelledby="window-title window-desc",
            class_="window",
            width="100%",
            height=_HEIGHT,
        )

    def _drop(self, segment: SessionSegment, before: int, after: int) -> None:
        x, high, low = self._x(self._at), self._y(before), self._y(after)
        self._points.append((x, high))
        self._end_curve()
        self._points = [(x, low)]
        self._landed = (x, low)
        self._drops.append(f"M{x:.1f},{high:.1f}V{low:.1f}")
        self._at += 1
        if self._drops_in_all <= _MAX_MARKED:
            is_numbered = self._drops_in_all <= _MAX_NUMBERED
            self._marks.append(_mark(segment, before, after, x, low, is_numbered=is_numbered))

    def _end_curve(self) -> None:
        if not self._points:
            return
        if len(self._points) == 1 and self._points[0] != self._landed:
            self._points = list(self._flat(*self._points[0]))
        points = "L".join(f"{x:.1f},{y:.1f}" for x, y in self._points)
        first, last = self._points[0][0], self._points[-1][0]
        self._areas.append(f"M{first:.1f},{_BOTTOM}L{points}L{last:.1f},{_BOTTOM}Z")
        self._curves.append(f"M{points}")
        self._points = []

    def _flat(self, x: float, y: float) -> Iterator[tuple[float, float]]:
        """Draw the only call of a session as a short line: a single point is invisible."""
        width = self._half_a_step * _STEP
        yield max(0.0, x - width), y
        yield min(_WIDTH, x + width), y

    def _limits(self) -> Iterator[Markup]:
        yield element("line", x1="0", x2="100%", y1=_BOTTOM, y2=_BOTTOM, class_="axis")
        for number, limit in enumerate(self._window.limits):
            y = self._y(limit.tokens)
            yield element("line", x1="0", x2="100%", y1=y, y2=y, class_=f"limit limit-{number}")
            words = f"{limit.share:.0%} · {limit.tokens:,} · {limit.what}"
            yield element("text", words, x="0", y=y - 5, class_="limit-name")

    def _times(self, shown: Sequence[SessionSegment]) -> Iterator[Markup]:
        calls = [call for segment in shown for call in segment.calls]
        if not calls:
            return
        ends = [("0", "start", calls[0]), ("100%", "end", calls[-1])]
        for x, anchor, call in ends[: 1 if len(calls) == 1 else 2]:
            yield element("text", local_time(call.at), x=x, y=_HEIGHT - 8, text_anchor=anchor)

    def _description(self, shown: Sequence[SessionSegment]) -> str:
        calls = [call for segment in shown for call in segment.calls]
        now = f"{calls[-1].tokens:,} now" if calls else "none reported yet"
        drops = self._drops_in_all
        compactions = "1 compaction" if drops == 1 else f"{drops:,} compactions"
        return (
            f"{len(calls):,} model calls; at most {_peak(shown):,} tokens, {now}, in a window of "
            f"{self._window.tokens:,}. {compactions}; the table below has the figures."
        )


def _mark(
    segment: SessionSegment, before: int, after: int, x: float, low: float, *, is_numbered: bool
) -> Markup:
    said = f"{segment.when}: {segment.reason}. {before:,} to {after:,} tokens."
    anchor, shift = ("end", -8.0) if x > _WIDTH * 0.9 else ("start", 8.0)
    number = element("text", str(segment.number), x=_per_cent(x), y=low + 4, dx=shift, text_anchor=anchor)
    return element(
        "g",
        element("title", said),
        element("circle", cx=_per_cent(x), cy=low, r=4.0),
        number if is_numbered else "",
        class_="mark-drop",
    )


def _per_cent(x: float) -> str:
    return f"{x / _WIDTH:.2%}"
