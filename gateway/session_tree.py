"""The shape of a conversation's family tree: straight lines of sessions, and the lines that leave them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, Protocol, TypeVar

_FIRST, _LAST = 3, 10
"""Of a long line, how many sessions are shown at its beginning and its end."""
_SMALLEST_GAP = 3


class HasParent(Protocol):
    """What has a place in the tree."""

    @property
    def id(self) -> str: ...

    @property
    def parent_id(self) -> str | None: ...


S = TypeVar("S", bound=HasParent)


@dataclass(frozen=True, slots=True)
class Gap:
    """Sessions of a straight line that are not shown."""

    sessions: int
    first_id: str


@dataclass(frozen=True, slots=True)
class SessionBranch(Generic[S]):
    """A straight line of sessions, each the parent of the next, and the lines that leave it."""

    line: Sequence[S | Gap]
    branches: Mapping[str, Sequence[SessionBranch[S]]]
    """By the session they come of."""


def build_tree(
    sessions: Sequence[S], live_id: str, *, everything: bool = False, also: Collection[str] = ()
) -> SessionBranch[S]:
    """The line to the live session; where others leave it, they go on along their heaviest child. Unless everything is
    asked for, the middle of long lines is left out, but for those that are asked for `also`.

    So branches nest no deeper than the logarithm of the number of sessions, however they came to be.
    """
    children: dict[str | None, list[S]] = {}
    for session in sessions:
        children.setdefault(session.parent_id, []).append(session)
    weight = _weights(sessions, live_id)

    def strand_from(first: S) -> SessionBranch[S]:
        line, branches = [first], dict[str, list[SessionBranch[S]]]()
        while born := sorted(children.get(line[-1].id, ()), key=lambda child: weight[child.id]):
            heir = None if line[-1].id == live_id else born.pop()
            if born:
                branches[line[-1].id] = [strand_from(child) for child in born]
            if heir is None:
                break
            line.append(heir)
        return SessionBranch(line if everything else list(_with_gaps(line, {*branches, *also})), branches)

    (root,) = children[None]
    return strand_from(root)


def shown(strand: SessionBranch[S]) -> Iterator[S]:
    for member in strand.line:
        if not isinstance(member, Gap):
            yield member
    for branches in strand.branches.values():
        for branch in branches:
            yield from shown(branch)


def _weights(sessions: Sequence[S], live_id: str) -> dict[str, int]:
    """How many sessions hang on each; the live one outweighs all others together. Children come after parents."""
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
