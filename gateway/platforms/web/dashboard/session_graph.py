"""The graph of the sessions of a conversation: one row per session, with lines that connect parent and child."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gateway.platforms.web.dashboard.charts import element
from gateway.platforms.web.dashboard.transcript import REASONS
from gateway.platforms.web.templating import local_time
from gateway.session_tree import Gap, SessionBranch, build_tree
from gateway.store.reports import SessionInfo

_TRACK = 22
"""Pixels between two tracks."""
_MAX_TRACKS = 12
"""The style sheet has room for this many."""
UNFOLDED = 100
"""Sessions of a folded line that are shown at once."""
_NODE = 16
"""Pixels from the top of a row to its node."""


@dataclass(frozen=True, slots=True)
class Row:
    """A session or a gap, and the tracks beside it."""

    session: SessionInfo | None
    gap: Gap | None
    column: int
    passing: frozenset[int]
    """Tracks that pass this row."""
    up: bool
    down: bool
    comes_from: int | None
    """The track that this row branches off from."""


@dataclass(frozen=True, slots=True)
class Node:
    """A row as the page shows it."""

    track: Markup
    number: int
    """Number of the session, or of the first session of a gap."""
    session: SessionInfo | None = None
    left_out: int = 0
    reason: str = ""
    comes_of: int = 0
    """The number of its parent, unless the parent is the row above."""
    when: str = ""
    is_live: bool = False
    is_ancestor: bool = False
    """Ancestor of the live session, so its context can be restored."""


@dataclass(frozen=True, slots=True)
class SessionGraph:
    nodes: list[Node]
    total: int
    tracks: int
    """Parallel tracks; at most the logarithm of the number of sessions."""


def build_session_graph(
    sessions: Sequence[SessionInfo], live_id: str, *, unfolded_from: int | None
) -> SessionGraph:
    """Fold the middle of long lines; unfold some sessions from number `unfolded_from` on."""
    begin = unfolded_from - 1 if unfolded_from else len(sessions)
    also = {session.id for session in sessions[begin : begin + UNFOLDED]}
    rows = list(_rows(build_tree(sessions, live_id, also=also)))
    tracks = max(row.column for row in rows) + 1
    numbers = {session.id: number for number, session in enumerate(sessions, start=1)}
    ancestors = frozenset(path_to(sessions, live_id))
    above = [None, *(row.session.id if row.session else None for row in rows)]
    nodes = [
        _node(row, numbers, ancestors, live_id, before) for row, before in zip(rows, above, strict=False)
    ]
    return SessionGraph(nodes, len(sessions), min(tracks, _MAX_TRACKS))


def path_to(sessions: Sequence[SessionInfo], session_id: str) -> list[str]:
    """Return the ids of the session and its ancestors, oldest first."""
    parents = {session.id: session.parent_id for session in sessions}
    line: list[str] = []
    at: str | None = session_id
    while at is not None and at in parents:
        line.append(at)
        at = parents[at]
    return line[::-1]


def _rows(
    strand: SessionBranch[SessionInfo],
    column: int = 0,
    comes_from: int | None = None,
    passing: frozenset[int] = frozenset(),
) -> Iterator[Row]:
    for at, member in enumerate(strand.line):
        is_last = at == len(strand.line) - 1
        session = None if isinstance(member, Gap) else member
        gap = member if isinstance(member, Gap) else None
        branches = strand.branches.get(session.id, ()) if session else ()
        yield Row(
            session,
            gap,
            column,
            passing,
            up=at > 0,
            down=not is_last or bool(branches),
            comes_from=comes_from if at == 0 else None,
        )
        for number, branch in enumerate(branches, start=1):
            goes_on = not is_last or number < len(branches)
            beside = passing | {column} if goes_on else passing
            yield from _rows(branch, column + 1, column, beside)


def _node(
    row: Row, numbers: dict[str, int], ancestors: frozenset[str], live_id: str, above: str | None
) -> Node:
    track = _track(row, is_live=row.session is not None and row.session.id == live_id)
    if row.gap:
        return Node(track, numbers[row.gap.first_id], left_out=row.gap.sessions)
    session = row.session
    assert session is not None
    return Node(
        track,
        numbers[session.id],
        session,
        reason=REASONS[session.reason],
        comes_of=numbers[session.parent_id] if session.parent_id and session.parent_id != above else 0,
        when=local_time(session.created_at),
        is_live=session.id == live_id,
        is_ancestor=session.id in ancestors and session.id != live_id,
    )


def _track(row: Row, *, is_live: bool) -> Markup:
    """Draw the lines beside a row; they end at 100 % of its height."""
    x = _middle(row.column)
    lines = [_line(_middle(column), "0", _middle(column), "100%") for column in sorted(row.passing)]
    if row.comes_from is not None:
        lines.append(_line(_middle(row.comes_from), "0", x, str(_NODE), class_="leaves"))
    if row.up:
        goes_on = row.session is None or row.session.reason != "reset"
        lines.append(_line(x, "0", x, str(_NODE), class_=None if goes_on else "leaves"))
    if row.down:
        lines.append(_line(x, str(_NODE), x, "100%"))
    mark = (
        element("circle", cx=x, cy=_NODE, r=6.0, class_="live" if is_live else None)
        if row.session
        else element("line", x1=x - 4, y1=_NODE, x2=x + 4, y2=_NODE, class_="gap")
    )
    return element("svg", *lines, mark, class_="track", aria_hidden="true")


def _line(x1: float, y1: str, x2: float, y2: str, class_: str | None = None) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def _middle(column: int) -> float:
    return column * _TRACK + _TRACK / 2
