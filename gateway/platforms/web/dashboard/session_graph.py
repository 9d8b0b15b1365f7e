"""The graph of the sessions of a conversation: one row per session, with lines that connect parent and child."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gateway.platforms.web.dashboard.charts import element
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
class _Row:
    """A session or a gap, and the tracks beside it."""

    member: SessionInfo | Gap
    column: int
    passing: frozenset[int]
    """Tracks that pass this row."""
    up: bool
    down: bool
    branches_from: int | None
    """The track that this row branches off from."""


@dataclass(frozen=True, slots=True)
class Node:
    """A row as the page shows it."""

    track: Markup
    number: int
    """Number of the session, or of the first session of a gap."""
    session: SessionInfo | None = None
    left_out: int = 0
    parent_number: int = 0
    """The number of its parent, unless the parent is the row above."""
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
    numbers = {session.id: number for number, session in enumerate(sessions, start=1)}
    ancestors = set(path_to(sessions, live_id)) - {live_id}
    nodes = []
    above = ""
    for row in rows:
        member = row.member
        if isinstance(member, Gap):
            nodes.append(Node(_track(row), numbers[member.first_id], left_out=member.sessions))
            above = ""
            continue
        is_live = member.id == live_id
        parent_id = "" if member.parent_id in (None, above) else member.parent_id
        nodes.append(
            Node(
                _track(row, is_live=is_live),
                numbers[member.id],
                member,
                parent_number=numbers[parent_id] if parent_id else 0,
                is_live=is_live,
                is_ancestor=member.id in ancestors,
            )
        )
        above = member.id
    tracks = max(row.column for row in rows) + 1
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
    branch: SessionBranch[SessionInfo],
    column: int = 0,
    branches_from: int | None = None,
    passing: frozenset[int] = frozenset(),
) -> Iterator[_Row]:
    for at, member in enumerate(branch.line):
        is_last = at == len(branch.line) - 1
        children = () if isinstance(member, Gap) else branch.branches.get(member.id, ())
        down = not is_last or bool(children)
        yield _Row(member, column, passing, at > 0, down, branches_from if at == 0 else None)
        for number, child in enumerate(children, start=1):
            goes_on = not is_last or number < len(children)
            yield from _rows(child, column + 1, column, passing | {column} if goes_on else passing)


def _track(row: _Row, *, is_live: bool = False) -> Markup:
    """Draw the lines beside a row; they end at 100 % of its height."""
    x = _middle(row.column)
    session = None if isinstance(row.member, Gap) else row.member
    lines = [_line(_middle(column), "0", _middle(column), "100%") for column in sorted(row.passing)]
    if row.branches_from is not None:
        lines.append(_line(_middle(row.branches_from), "0", x, str(_NODE), class_="branch"))
    if row.up:
        is_reset = session is not None and session.reason == "reset"
        lines.append(_line(x, "0", x, str(_NODE), class_="branch" if is_reset else None))
    if row.down:
        lines.append(_line(x, str(_NODE), x, "100%"))
    mark = (
        element("circle", cx=x, cy=_NODE, r=6.0, class_="live" if is_live else None)
        if session
        else element("line", x1=x - 4, y1=_NODE, x2=x + 4, y2=_NODE, class_="gap")
    )
    return element("svg", *lines, mark, class_="track", aria_hidden="true")


def _line(x1: float, y1: str, x2: float, y2: str, class_: str | None = None) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def _middle(column: int) -> float:
    return column * _TRACK + _TRACK / 2
