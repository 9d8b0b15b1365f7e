"""Unified diffs: which files, and how many lines came and went."""

from __future__ import annotations

import re

from .room import Findings, Section
from .source import Source
from .values import as_written, counted, one_line

_HUNK = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@ ?(.{0,200})")
_FILE = re.compile(r"diff --git (?:\"?a/)?(.{1,1000}?)\"? \"?b/(.{1,1000})")
_SHOWN_HEAD = 12
_SHOWN_FILES = 300
_SHOWN_PLACES = 20
_LOOKED_AT = 3_000
"""Lines in which the first hunk must begin; a long message may stand before it."""


class _Change:
    def __init__(self, path: str) -> None:
        self.path = path
        self.added = self.removed = 0
        self.places: list[str] = []
        self.what = ""


def read_diff(source: Source) -> Findings | None:
    lines = source.lines
    start = _first_file(lines[:_LOOKED_AT])
    if start is None:
        return None
    changes = _changes(lines, start)
    if not changes:
        return None
    added, removed = sum(each.added for each in changes), sum(each.removed for each in changes)
    so_far = "" if source.all_read else " in its beginning"
    facts = f"{counted(len(changes), 'file')} changed{so_far}, +{added:,} -{removed:,}"
    head = [as_written(line) for line in lines[:start] if line.strip()]
    files = [line for each in changes[:_SHOWN_FILES] for line in _as_lines(each)]
    return Findings(
        "diff",
        facts,
        [
            Section.flat("", head[:_SHOWN_HEAD], more=max(0, len(head) - _SHOWN_HEAD)),
            Section("Files:", files, more=max(0, len(changes) - _SHOWN_FILES)),
        ],
    )


def _first_file(lines: list[str]) -> int | None:
    for index, line in enumerate(lines):
        if line.startswith("diff --git ") and _FILE.match(line):
            return index
        follows = lines[index + 1 : index + 3]
        if (
            line.startswith("--- ")
            and len(follows) == 2
            and follows[0].startswith("+++ ")
            and _HUNK.match(follows[1])
        ):
            return index
    return None


def _changes(lines: list[str], start: int) -> list[_Change]:
    changes: list[_Change] = []
    old = new = 0
    # Of the hunk, so many lines are still to come. Within one, `--- x` is a line that went.
    for index in range(start, len(lines)):
        line = lines[index]
        if old > 0 or new > 0:
            sign = line[:1]
            old -= sign in ("-", " ", "")
            new -= sign in ("+", " ", "")
            changes[-1].added += sign == "+"
            changes[-1].removed += sign == "-"
        elif found := _FILE.match(line):
            changes.append(_Change(found[2]))
        elif line.startswith("--- ") and index + 1 < len(lines) and lines[index + 1].startswith("+++ "):
            _name(changes, line[4:], lines[index + 1][4:])
        elif changes and (hunk := _HUNK.match(line)):
            old, new = int(hunk[1] or 1), int(hunk[2] or 1)
            changes[-1].places.append(hunk[3])
        elif changes and line.startswith(("new file", "deleted file", "rename from", "Binary files")):
            changes[-1].what = " ".join(line.split()[:2]).removesuffix(" from").replace("rename", "renamed")
    return changes


def _name(changes: list[_Change], old: str, new: str) -> None:
    """`--- a/x` and `+++ b/x`: of the file that was announced, or of a new one where nothing was."""
    path = (old if new.startswith("/dev/null") else new).split("\t")[0].strip()
    path = re.sub(r"\A[ab]/", "", path)
    if not changes or changes[-1].places or changes[-1].path != path:
        changes.append(_Change(path))


def _as_lines(change: _Change) -> list[tuple[int, str]]:
    what = f" ({change.what})" if change.what else ""
    lines = [(0, f"{one_line(change.path)} +{change.added:,} -{change.removed:,}{what}")]
    places = dict.fromkeys(place for place in change.places if place.strip())
    return [*lines, *((1, f"  in {one_line(place, 100)}") for place in list(places)[:_SHOWN_PLACES])]
