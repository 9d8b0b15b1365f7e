"""The page about the context window of a conversation: the chart of its use and the graph of its sessions.

The chart is as wide as the page: horizontal positions are in thousandths or per cent, vertical ones in pixels, so text
keeps its size on a phone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

from aiohttp import web
from markupsafe import Markup

from agent.store import Conversation
from gateway.core.session_policy import HYGIENE_THRESHOLD
from gateway.platforms.web import request_params as params
from gateway.platforms.web.dashboard.charts import drawing, element, linear
from gateway.platforms.web.dashboard.conversation import conversation_facts, conversation_version
from gateway.platforms.web.dashboard.conversations import ADDRESS
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.platforms.web.dashboard.session_graph import UNFOLDED, build_session_graph, path_to
from gateway.platforms.web.templating import SPLIT_REASONS, local_time
from gateway.store.reports import ContextSample, SessionInfo
from gateway.text.display import pluralize

_MAX_SESSIONS = 100
"""Sessions in the chart and its table unless all are requested: more drops are not readable."""
_MAX_POINTS = 1_000
_HEIGHT, _TOP, _BOTTOM = 260, 22, 232
_WIDTH = 1_000.0
_MAX_MARKED, _MAX_NUMBERED = 100, 12
"""With more drops, dots or numbers would overlap and are omitted."""
_MARGIN = 1.05
_STEP = 0.8
"""Share of the width of one call."""


def routes(context: DashboardContext, page: PageRenderer) -> list[web.RouteDef]:
    async def gather(request: web.Request) -> dict[str, Any]:
        about = await conversation_facts(context, request)
        conversation = about["conversation"]
        live_id = conversation.live_session_id
        sessions = await context.reports.conversations.sessions(conversation.id)
        calls = await context.reports.conversations.context_samples(live_id)
        window = await _window(context, conversation)
        everything = request.query.get("chart") == "all"
        unfolded_from = params.positive_int(request, "unfold", 0) or None

        def draw() -> dict[str, Any]:
            segments = session_segments(sessions, path_to(sessions, live_id), calls)
            charted = segments if everything else segments[-_MAX_SESSIONS:]
            return {
                "chart": render_context_chart(charted, window) if any(each.calls for each in charted) else "",
                "segments": charted[-_MAX_SESSIONS:],
                "charted": len(charted),
                "chartable": len(segments),
                "graph": build_session_graph(sessions, live_id, unfolded_from=unfolded_from),
            }

        return {
            **about,
            **await asyncio.to_thread(draw),
            "window": window,
            "compacts_automatically": context.gateway.agent.compacts_automatically,
            "unfolded": UNFOLDED,
        }

    version = partial(conversation_version, context)
    return page.live(f"{ADDRESS}/{{id}}/context", "dashboard/conversation_context.html", gather, version)


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


async def _window(context: DashboardContext, conversation: Conversation) -> ContextWindow:
    """Describe the window and its limits. The engine reports its threshold once it runs; before, the configured one
    counts."""
    agent = context.gateway.agent
    llm = await agent.models.in_use(conversation)
    configured = round(llm.context_length * context.loaded.config.compression.threshold)
    status = await agent.engine_status(conversation)
    tokens = (status.threshold_tokens if status else 0) or configured
    engine = status.name if status else context.engine
    limits = [
        Limit(round(llm.context_length * HYGIENE_THRESHOLD), HYGIENE_THRESHOLD, "session hygiene"),
        Limit(tokens, tokens / max(llm.context_length, 1), engine),
    ]
    return ContextWindow(llm.model, llm.context_length, limits)


@dataclass(frozen=True, slots=True)
class SessionSegment:
    """One session: a row of the table and a segment of the curve."""

    number: int
    session: SessionInfo
    calls: list[ContextSample]

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
    plot = _Plot(shown, window)
    for segment in shown:
        plot.add(segment)
    return plot.picture()


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
            kept += sorted({min(piece, key=itemgetter(1)), max(piece, key=itemgetter(1))})
    return [*kept, calls[-1]]


class _Plot:
    """Draws the segments from left to right."""

    def __init__(self, shown: Sequence[SessionSegment], window: ContextWindow) -> None:
        compactions = [segment.session.compaction for segment in shown if segment.session.compaction]
        self._window = window
        self._calls = [call for segment in shown for call in segment.calls]
        self._total_drops = len(compactions)
        self._steps = len(self._calls) + len(compactions)
        self._peak = max(
            [0, *(each.tokens_before for each in compactions), *(call.tokens for call in self._calls)]
        )
        top = max(self._peak * _MARGIN, window.tokens * 0.95, 1.0)
        self._x = linear((0, max(self._steps - 1, 1)), (0.0, _WIDTH))
        self._y = linear((0.0, top), (float(_BOTTOM), float(_TOP)))
        self._at = 0
        self._points: list[tuple[float, float]] = []
        self._landed: tuple[float, float] | None = None
        """The point after the last compaction, which has its own mark."""
        self._areas: list[str] = []
        self._curves: list[str] = []
        self._drops: list[str] = []
        self._marks: list[Markup] = []

    def add(self, segment: SessionSegment) -> None:
        if compaction := segment.session.compaction:
            self._drop(segment, compaction.tokens_before, compaction.tokens_after)
        elif segment.session.parent_id is not None:
            self._end_curve()  # a reset or a branch: the curve is interrupted
        places = [(self._at + number, call.tokens) for number, call in enumerate(segment.calls)]
        share = _MAX_POINTS * len(places) // max(self._steps, 1)
        most = max(4, share) if self._steps > _MAX_POINTS else len(places)
        self._points += [(self._x(at), self._y(tokens)) for at, tokens in downsample(places, most)]
        self._at += len(places)

    def picture(self) -> Markup:
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
        return drawing(
            _HEIGHT,
            *self._limits(),
            curve,
            *self._marks,
            *self._times(),
            title="Tokens in the window, call by call",
            description=self._description(),
            name="window",
            class_="window",
        )

    def _drop(self, segment: SessionSegment, before: int, after: int) -> None:
        x, high, low = self._x(self._at), self._y(before), self._y(after)
        self._points.append((x, high))
        self._end_curve()
        self._points = [(x, low)]
        self._landed = (x, low)
        self._drops.append(f"M{x:.1f},{high:.1f}V{low:.1f}")
        self._at += 1
        if self._total_drops > _MAX_MARKED:
            return
        session = segment.session
        said = f"{local_time(session.created_at)}: {SPLIT_REASONS[session.reason]}. {before:,} to {after:,} tokens."
        self._marks.append(
            element(
                "g",
                element("title", said),
                element("circle", cx=f"{x / _WIDTH:.2%}", cy=low, r=4.0),
                _drop_number(segment.number, x, low) if self._total_drops <= _MAX_NUMBERED else "",
                class_="mark-drop",
            )
        )

    def _end_curve(self) -> None:
        if not self._points:
            return
        if len(self._points) == 1 and self._points[0] != self._landed:
            # The only call of a session becomes a short line: a single point is invisible.
            [(x, y)] = self._points
            width = _WIDTH / max(self._steps - 1, 1) / 2 * _STEP
            self._points = [(max(0.0, x - width), y), (min(_WIDTH, x + width), y)]
        points = "L".join(f"{x:.1f},{y:.1f}" for x, y in self._points)
        first, last = self._points[0][0], self._points[-1][0]
        self._areas.append(f"M{first:.1f},{_BOTTOM}L{points}L{last:.1f},{_BOTTOM}Z")
        self._curves.append(f"M{points}")
        self._points = []

    def _limits(self) -> Iterator[Markup]:
        yield element("line", x1="0", x2="100%", y1=_BOTTOM, y2=_BOTTOM, class_="axis")
        for number, limit in enumerate(self._window.limits):
            y = self._y(limit.tokens)
            yield element("line", x1="0", x2="100%", y1=y, y2=y, class_=f"limit limit-{number}")
            words = f"{limit.share:.0%} · {limit.tokens:,} · {limit.what}"
            yield element("text", words, x="0", y=y - 5, class_="limit-name")

    def _times(self) -> Iterator[Markup]:
        if self._calls:
            yield element("text", local_time(self._calls[0].at), x="0", y=_HEIGHT - 8, text_anchor="start")
        if len(self._calls) > 1:
            yield element("text", local_time(self._calls[-1].at), x="100%", y=_HEIGHT - 8, text_anchor="end")

    def _description(self) -> str:
        now = f"{self._calls[-1].tokens:,} now" if self._calls else "none reported yet"
        return (
            f"{pluralize(len(self._calls), 'model call')}; at most {self._peak:,} tokens, {now}, in a window of "
            f"{self._window.tokens:,}. {pluralize(self._total_drops, 'compaction')}; the table below has the figures."
        )


def _drop_number(number: int, x: float, y: float) -> Markup:
    anchor, shift = ("end", -8.0) if x > _WIDTH * 0.9 else ("start", 8.0)
    return element("text", str(number), x=f"{x / _WIDTH:.2%}", y=y + 4, dx=shift, text_anchor=anchor)
