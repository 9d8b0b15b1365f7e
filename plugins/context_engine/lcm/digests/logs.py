"""Logs: from when to when, how many lines of each level, and which errors."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice

from .prose import plain_sections
from .room import Findings, Section
from .source import Source
from .values import counted, one_line

_SAMPLE = 300
_LOOKED_AT = 400
"""Characters of a line."""
_LEAST_SHARE = 0.3
"""Of the lines with a time or a level: the others may be tracebacks."""
_MOST_ERRORS = 200
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_STAMP = (
    r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?:Z|[ ]?[+-]\d\d:?\d\d)?"
    rf"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) {_MONTH} [ \d]\d \d\d:\d\d:\d\d[^\]]{{0,20}}"
    rf"|{_MONTH} [ \d]\d \d\d:\d\d:\d\d"
    r"|\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}"
    r"|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
)
_BEGINS = re.compile(rf"[\[(]?(?:[A-Z]+[ :] {{0,4}})?[\[(]?({_STAMP})(?![,;\t]\S|\d)")
_INSIDE = re.compile(
    rf"\S{{1,60}} \S{{1,60}} \S{{1,60}} \[({_STAMP})\]|.{{0,80}}?\b(?:ts|time|timestamp)=\"?({_STAMP})"
)
_LEVEL = re.compile(
    r"(?<![\w/.-])(?:(TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|CRIT(?:ICAL)?|FATAL|SEVERE|EMERG|ALERT|PANIC)(?![\w/-])"
    r"|[\[=\"](trace|debug|info|notice|warn(?:ing)?|err(?:or)?|crit(?:ical)?|fatal|panic)[\]\"\s])"
)
_BARE_LEVEL = re.compile(r"\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\]?[:\s]")
_EXCEPTION = re.compile(
    r"(?:[A-Za-z_][\w.$]{0,100}(?:Error|Exception)\b(?:: |$)|Traceback \(most recent|panic: |Caused by: )"
)
_STATUS = re.compile(r"\" ([1-5]\d\d) (?:\d+|-)(?: |$)")
_SAME = {"WARN": "WARNING", "ERR": "ERROR", "CRIT": "CRITICAL"}
_BAD = frozenset({"ERROR", "CRITICAL", "FATAL", "SEVERE", "EMERG", "ALERT", "PANIC"})
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8,}\b|\d+")
_ORDER = (
    "TRACE",
    "DEBUG",
    "INFO",
    "NOTICE",
    "WARNING",
    "ERROR",
    "SEVERE",
    "CRITICAL",
    "FATAL",
    *("ALERT", "EMERG", "PANIC"),
)


class _Tally:
    def __init__(self) -> None:
        self.levels: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.first = self.last = ""
        self.errors: dict[str, tuple[int, str]] = {}
        """By what is the same in them: where it was first seen, and how it was written."""
        self.repeats: Counter[str] = Counter()
        self.too_many = 0


def read_log(source: Source) -> Findings | None:
    sample = [line[:_LOOKED_AT] for line in islice(source.lines, _SAMPLE) if line.strip()]
    if len(sample) < 4 or sum(map(_is_entry, sample)) < max(3, len(sample) * _LEAST_SHARE):
        return None
    tally = _tally(source)
    if not tally.first and not tally.levels:
        return None
    facts = ", ".join(
        [
            *(f"{tally.levels[level]:,} {level}" for level in _ORDER if tally.levels[level]),
            *(f"{number:,} answers {status}" for status, number in sorted(tally.statuses.items())),
        ]
    )
    if not source.all_read and facts:
        facts += f" in the first {len(source.lines):,} lines"
    times = [f"From {tally.first} to {_last_time(source) or tally.last}"] if tally.first else []
    errors = [_error(tally, same) for same in tally.errors]
    return Findings(
        "log",
        facts,
        [
            Section.flat("", times),
            Section.flat(
                "Errors, each once, with the line where it first stands:", errors, more=tally.too_many
            ),
            *plain_sections(source)[::-1],
        ],
    )


def _is_entry(line: str) -> bool:
    return bool(_BEGINS.match(line) or _INSIDE.match(line) or _BARE_LEVEL.match(line))


def _time(line: str) -> str:
    found = _BEGINS.match(line) or _INSIDE.match(line)
    return next(filter(None, found.groups()), "") if found else ""


def _last_time(source: Source) -> str:
    return next(filter(None, map(_time, reversed(source.text[-20_000:].split("\n")))), "")


def _tally(source: Source) -> _Tally:
    tally = _Tally()
    for index, whole in enumerate(source.lines):
        line = whole[:_LOOKED_AT]
        if not tally.first:
            tally.first = _time(line)
        elif not tally.last or index % 100 == 0:
            tally.last = _time(line) or tally.last
        level = ""
        if found := _LEVEL.search(line, 0, 160):
            name = (found[1] or found[2]).upper()
            level = _SAME.get(name, name)
            tally.levels[level] += 1
        elif status := _STATUS.search(line):
            tally.statuses[f"{status[1][0]}xx"] += 1
        if level in _BAD or (not level and _EXCEPTION.match(line)):
            _note_error(tally, source.line_number(index), line)
    return tally


def _note_error(tally: _Tally, number: int, line: str) -> None:
    same = _VARIABLE.sub("#", _BEGINS.sub("", line, count=1))
    tally.repeats[same] += 1
    if same in tally.errors:
        return
    if len(tally.errors) < _MOST_ERRORS:
        tally.errors[same] = (number, line)
    else:
        tally.repeats.pop(same)
        tally.too_many += 1


def _error(tally: _Tally, same: str) -> str:
    number, line = tally.errors[same]
    times = tally.repeats[same]
    often = f" ({counted(times, 'time')})" if times > 1 else ""
    return f"{number}: {one_line(line, 160)}{often}"
