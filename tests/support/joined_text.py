"""Checks that messages are the text: nothing lost, repeated or reordered."""

from gateway.text.splitter import split_first
from gateway.text.unicode import INVISIBLE, Measure, is_blank


def is_whole(text: str, pieces: list[str]) -> bool:
    """Ignore white space that is dropped at cuts, and fences that are closed and reopened there."""
    reached = {(0, False)}
    for index, piece in enumerate(pieces):
        following = pieces[index + 1] if index + 1 < len(pieces) else ""
        may_bind = (
            bool(following) and _is_fence(piece.split("\n")[-1]) and _is_fence(following.split("\n")[0])
        )
        reached = {
            (end, closed)
            for begin, opened in reached
            for closed in ({False, True} if may_bind else {False})
            if (end := _end_of(text, begin, _without_fences(piece, opened=opened, closed=closed))) is not None
        }
    return any(not closed and not text[end:].strip(INVISIBLE) for end, closed in reached)


def _is_fence(line: str) -> bool:
    return line.lstrip(" \t>").startswith(("```", "~~~"))


def _without_fences(piece: str, *, opened: bool, closed: bool) -> str:
    lines = piece.split("\n")
    return "\n".join(lines[1 if opened else 0 : -1 if closed else None])


def _end_of(text: str, begin: int, body: str) -> int | None:
    """Return where the body ends in the text, or None if it is not there."""
    seen = body.lstrip(INVISIBLE)
    indentation = body[: len(body) - len(seen)]
    position = len(text) - len(text[begin:].lstrip(INVISIBLE))
    is_there = text[begin:position].endswith(indentation) and text.startswith(seen, position)
    return position + len(seen) if seen and is_there else None


def split_text(text: str, limit: int, measure: Measure) -> list[str]:
    """Return all messages that a text is split into; none for a blank text."""
    found = []
    rest = text
    while not is_blank(rest):
        piece, rest = split_first(rest, limit, measure)
        found.append(piece)
    return found
