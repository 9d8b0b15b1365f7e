"""Search requests and results; dates and speakers in questions and messages.

Dates are ISO dates and English month names.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from agent.fts_text import parse_query

Mode = Literal["natural", "phrase", "all", "regex"]


class InvalidSearch(Exception):
    """A request that cannot be searched. The text says what to write instead."""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    conversations: Sequence[int]
    text: str
    mode: Mode = "natural"
    role: str = ""
    """Only messages with this role; empty for all."""
    since: float | None = None
    until: float | None = None
    """Unix times: `since` is included, `until` is not."""
    without: frozenset[int] = frozenset()
    """Keys of messages that cannot be hits, such as the question itself."""

    def admits(self, role: str, said_at: float) -> bool:
        return (
            (not self.role or role == self.role)
            and (self.since is None or said_at >= self.since)
            and (self.until is None or said_at < self.until)
        )


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that was found; its text is loaded when it is shown."""

    key: int
    conversation: int
    seq: int
    said_at: float
    score: float


@dataclass(frozen=True, slots=True)
class SearchResult:
    hits: list[Hit]
    words: tuple[str, ...] = ()
    """Words for the excerpt of a long message."""
    more: bool = False
    """Whether there are more hits than were read."""
    searched_back_to: float | None = None
    """Time of the oldest message that was searched, if time ran out."""


_MONTH_NAMES = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTHS = {
    name[:length]: number for number, name in enumerate(_MONTH_NAMES, 1) for length in (len(name), 3)
} | {"sept": 9}
_MONTH = "|".join(_MONTHS)
_DAY = r"(?P<{}>\d{{1,2}})(?:st|nd|rd|th)?"
_NAMED = re.compile(
    rf"\b(?:{_DAY.format('before')} +(?:of +)?)?(?P<month>{_MONTH})\b\.?(?: +{_DAY.format('after')}\b(?! *\d))?"
    r"(?:,? +(?:of +)?(?P<year>(?:19|20)\d\d)\b)?",
    re.IGNORECASE,
)
ISO = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)(?:-(?P<day>\d\d))?\b")
_ALWAYS_A_MONTH = frozenset(_MONTHS) - {"may", "march", "mar", "jan", "dec"}
"""The other names are also words, so they need a number next to them."""

_DAYS_BEFORE = timedelta(days=1)
_DAYS_AFTER = timedelta(days=10)
"""People mention an event on its day or in the days after it."""


_DAY_SECONDS = 86_400
_EARLIEST, _LATEST = 1000, 9000
"""Years in which dates can be computed."""


@dataclass(frozen=True, slots=True)
class Days:
    """A day or a month, in any year if none was named."""

    month: int
    day: int | None = None
    year: int | None = None

    def includes(self, moment: datetime) -> bool:
        """Whether a message of that time may be about these days."""
        years = (self.year,) if self.year else (moment.year, moment.year - 1)
        periods = (self._within(year) for year in years if _EARLIEST <= year < _LATEST)
        return any(begin - _DAYS_BEFORE <= moment < end + _DAYS_AFTER for begin, end in periods)

    def period(self) -> tuple[float, float] | None:
        """Return first and last timestamp of such messages, if the year is known."""
        if self.year is None:
            return None
        begin, end = self._within(self.year)
        return (begin - _DAYS_BEFORE).timestamp(), (end + _DAYS_AFTER).timestamp()

    def _within(self, year: int) -> tuple[datetime, datetime]:
        begin = datetime(year, self.month, 1, tzinfo=UTC)
        following = (begin + timedelta(days=31)).replace(day=1)
        if self.day is None:
            return begin, following
        day = begin + timedelta(days=self.day - 1)
        return day, day + timedelta(days=1)


def days_in(text: str) -> list[Days]:
    days: list[Days] = []
    for found in _NAMED.finditer(text):
        name = found["month"].lower()
        day, year = found["before"] or found["after"], found["year"]
        if day or year or name in _ALWAYS_A_MONTH:
            number = int(day) if day and 1 <= int(day) <= 31 else None
            days.append(Days(_MONTHS[name], number, int(year) if year else None))
    for found in ISO.finditer(text):
        month, number = int(found["month"]), int(found["day"]) if found["day"] else None
        if 1 <= month <= 12 and (number is None or 1 <= number <= 31):
            days.append(Days(month, number, int(found["year"])))
    return days


def parse_timestamp(written: str, *, end_of_day: bool, name: str) -> float:
    """Parse an ISO date or time, in UTC if no zone is given. Raises InvalidSearch."""
    try:
        moment = datetime.fromisoformat(written.strip())
    except ValueError:
        raise InvalidSearch(
            f"`{name}` must be a date like 2026-03-01 or a time like 2026-03-01T14:30, not {written[:40]!r}."
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    # Add seconds, not a day: there is no day after 9999-12-31.
    is_day = end_of_day and len(written.strip()) <= len("2026-03-01")
    return moment.timestamp() + (_DAY_SECONDS if is_day else 0)


OPENING = 60
_LABEL = re.compile(r"\s*([^\W\d_][\w.'’-]*(?: [\w.'’-]+){0,3}): ")
_MIN_MESSAGES = 3
_MIN_SHARE = 0.05


def speaker_of(opening: str | None, rest: str | None) -> str:
    name = json.loads(rest).get("name") if rest and '"name"' in rest else None
    if isinstance(name, str) and name:
        return name.casefold()
    label = _LABEL.match(opening or "")
    return label[1].casefold() if label else ""


def without_label(text: str) -> str:
    label = _LABEL.match(text[:OPENING])
    return text[label.end() :] if label else text


RANKING_COLUMNS = (
    f"key, conversation, seq, role, tokens, said_at, substr(content, 1, {OPENING}) AS opening, rest"
)


@dataclass(frozen=True, slots=True)
class RankingRow:
    """The columns of a message that ranking needs."""

    key: int
    conversation: int
    seq: int
    role: str
    tokens: int
    said_at: float
    speaker: str

    @classmethod
    def read(cls, row: sqlite3.Row) -> RankingRow:
        """Read a row of `RANKING_COLUMNS`."""
        key, conversation, seq, role, tokens, said_at, opening, rest = row
        return cls(key, conversation, seq, role, tokens, said_at, speaker_of(opening, rest))


def named_speakers(words: Iterable[str], rows: Iterable[RankingRow]) -> dict[str, frozenset[str]]:
    """Return the speakers that a query names, each with the matching words. A rare label is not a speaker."""
    counts = Counter(row.speaker for row in rows)
    enough = max(_MIN_MESSAGES, _MIN_SHARE * counts.total())
    asked = {word.casefold() for word in words}
    speakers = (speaker for speaker, count in counts.items() if speaker and count >= enough)
    named = {
        speaker: asked & {word.casefold() for word in parse_query(speaker).words} for speaker in speakers
    }
    return {speaker: frozenset(by) for speaker, by in named.items() if by}
