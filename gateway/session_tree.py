"""The session tree of a conversation: straight lines of sessions, and the branches that leave them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, Protocol, TypeVar

_FIRST, _LAST = 3, 10
"""How many sessions are shown at the start and the end of a long line."""
_SMALLEST_GAP = 3


class HasParent(Protocol):
    """A node of the tree."""

    @property
    def id(self) -> str: ...

    @property
    def parent_id(self) -> str | None: ...


S = TypeVar("S", bound=HasParent)


@dataclass(frozen=True, slots=True)
class Gap:
    """Sessions of a line that are not shown."""

    sessions: int
    first_id: str


@dataclass(frozen=True, slots=True)
class SessionBranch(Generic[S]):
    """A line of sessions, each the parent of the next, and the branches that leave it."""

    line: Sequence[S | Gap]
    branches: Mapping[str, Sequence[SessionBranch[S]]]
    """Branches by the session that they leave."""


def build_tree(
    sessions: Sequence[S], live_id: str, *, everything: bool = False, also: Collection[str] = ()
) -> SessionBranch[S]:
    """Return the line to the live session with its branches. Without `everything`, the middle of long lines becomes a
    gap, except for the sessions in `also`.

    A branch continues along the child with the most descendants, so branches nest no deeper than the logarithm of the
    number of sessions.
    """
    children: dict[str | None, list[S]] = {}
    for session in sessions:
        children.setdefault(session.parent_id, []).append(session)
    weight = _weights(sessions, live_id)

    def branch_from(first: S) -> SessionBranch[S]:
        line, branches = [first], dict[str, list[SessionBranch[S]]]()
        while heirs := sorted(children.get(line[-1].id, ()), key=lambda child: weight[child.id]):
            heir = None if line[-1].id == live_id else heirs.pop()
            if heirs:
                branches[line[-1].id] = [branch_from(child) for child in heirs]
            if heir is None:
                break
            line.append(heir)
        return SessionBranch(line if everything else list(_with_gaps(line, {*branches, *also})), branches)

    (root,) = children[None]
    return branch_from(root)


def shown_sessions(branch: SessionBranch[S]) -> Iterator[S]:
    for member in branch.line:
        if not isinstance(member, Gap):
            yield member
    for branches in branch.branches.values():
        for each in branches:
            yield from shown_sessions(each)


def _weights(sessions: Sequence[S], live_id: str) -> dict[str, int]:
    """Return the number of descendants of each session; the line of the live session outweighs all others.

    Expects parents before children."""
    weight = {session.id: 1 for session in sessions}
    weight[live_id] += len(sessions)
    for session in reversed(sessions):
        if session.parent_id is not None:
            weight[session.parent_id] += weight[session.id]
    return weight


def _with_gaps(line: Sequence[S], wanted: Collection[str]) -> Iterator[S | Gap]:
    def is_of_interest(place: tuple[int, S]) -> bool:
        index, session = place
        return index < _FIRST or index >= len(line) - _LAST or session.id in wanted

    for of_interest, places in groupby(enumerate(line), is_of_interest):
        run = [session for _, session in places]
        if of_interest or len(run) < _SMALLEST_GAP:
            yield from run
        else:
            yield Gap(len(run), run[0].id)
