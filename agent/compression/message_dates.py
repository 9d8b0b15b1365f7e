"""Dates of messages, in UTC, for summaries, extracts and quoted rules. A message may have no date."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from agent.messages import CREATED_AT, ChatDict, text_of

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY = len("Wed 2026-11-18")
_SHOWN_BEGINNING = 60
_MOST_DAYS = 40

_PERIOD = "morning|afternoon|evening|night|week|weekend|month|year|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_PERIODE = "woche|wochenende|monat|jahr|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch"
_RELATIVE = re.compile(
    rf"\b(?:today|tonight|tomorrow|yesterday|(?:this|next|last|coming) (?:{_PERIOD})"
    r"|in (?:an?|two|three|\d{1,3}) (?:minute|hour|day|week|month)s?"
    rf"|heute|morgen|übermorgen|gestern|vorgestern|(?:diese|nächste|kommende|letzte)[mnrs]? (?:{_PERIODE})"
    r"|aujourd['’]hui|demain|ce soir|hoy|mañana|ayer|esta noche|oggi|domani|ieri|hoje|amanhã|ontem"
    r"|сегодня|завтра|вчера)\b"
    "|今天|明天|昨天|后天|後天|今日|明日|昨日|明後日|来週|下周|下週|오늘|내일|어제",
    re.IGNORECASE,
)
"""A bare weekday is not among them: "never deploy on Friday" means all of them."""


def said_at(message: ChatDict) -> str:
    """Return `Wed 2026-11-18 09:12`; empty if the host gives no time."""
    moment = message.get(CREATED_AT)
    if not isinstance(moment, int | float) or not moment > 0:
        return ""
    try:
        said = datetime.fromtimestamp(moment, UTC)
    except (OverflowError, OSError, ValueError):
        return ""
    return f"{_WEEKDAYS[said.weekday()]} {said:%Y-%m-%d %H:%M}"


def day_of(message: ChatDict) -> str:
    """Return `Wed 2026-11-18`; empty if the host gives no time."""
    return said_at(message)[:_DAY]


def with_day(sentence: str, day: str) -> str:
    """Return the sentence, with the day on which it was said if it has a relative time."""
    return f"{sentence} (said on {day})" if day and _RELATIVE.search(sentence) else sentence


def first_of_each_day(messages: Iterable[ChatDict]) -> list[str]:
    """Return the time and the beginning of the first message of each day; the newest days if there are many."""
    found: dict[str, str] = {}
    for message in messages:
        when, text = said_at(message), " ".join(text_of(message).split())
        if when and text and message.get("role") in ("user", "assistant"):
            found.setdefault(when[:_DAY], f"{when}: {text[:_SHOWN_BEGINNING]}")
    return list(found.values())[-_MOST_DAYS:]
