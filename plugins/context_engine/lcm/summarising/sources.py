"""What a summary is written from: messages or other summaries, free of secrets, as a record a model can read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Literal

from agent.chat_text import call_of, text_of
from agent.compression.prompt import pieces_of, record_of
from agent.compression.summary_check import check_summary, extract_as_checked, quotes_in
from agent.messages import ChatDict
from agent.redaction import redact_message, rules_that_may_fire
from agent.untrusted import own_words

from ..messages import Stored
from ..summaries import Node
from .marks import without_imitations

DATE = "[DATE] "
"""Begins a line of the record that nobody said. All others begin with who said them, so none can pass for one."""
_DATE_TOKENS = 16
"""No such line has more."""
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True)
class Sources:
    kind: Literal["leaf", "condensed"]
    chats: Sequence[ChatDict]
    """Those that say something; of a condensed summary, one for each child."""
    days: Sequence[str]
    """When each of them was said, as far as it is known."""
    size: int
    """Of all of them. A summary has to be smaller."""
    topics: Sequence[str] = ()
    """What the children say can be expanded."""

    def record(self) -> list[str]:
        """Blocks for `pieces_of`, with a line wherever the day changes."""
        blocks: list[str] = []
        today = ""
        for chat, day in zip(self.chats, self.days, strict=True):
            if day and day != today:
                today = day
                blocks.append(DATE + day)
            blocks += record_of([chat])
        return blocks

    def said_by_user(self) -> list[str]:
        """Proof for a quote: messages of the user; above leaves, what checked summaries quote from the user."""
        if self.kind == "leaf":
            return [own_words(text_of(chat)) for chat in self.chats if chat["role"] == "user"]
        return [quote for chat in self.chats for quote in _proven(chat)]


def _proven(child: ChatDict) -> Iterator[str]:
    """An extract holds words of the user as they are, and words of others that count for nothing."""
    text = text_of(child)
    if child["role"] == "extract":
        yield from extract_as_checked(text, ()).quotes
        text = "\n".join(line for line in text.split("\n") if not line.startswith("["))
    yield from check_summary(text, quotes_in(text)).quotes


def of_messages(messages: Sequence[Stored]) -> Sources:
    spoken = [message for message in messages if _says_something(message.chat)]
    return Sources(
        kind="leaf",
        chats=_without_secrets([message.chat for message in spoken]),
        days=[_day(message.said_at) for message in spoken],
        size=sum(message.tokens for message in messages),
    )


def of_summaries(children: Sequence[Node]) -> Sources:
    """Beneath a label of their own, so that what a summary quotes is not read as being said now."""
    contents = [without_imitations(child.content) for child in children]
    spoken = [(child, content) for child, content in zip(children, contents, strict=True) if content]
    chats = [
        {"role": "extract" if child.is_stand_in else "summary", "content": content}
        for child, content in spoken
    ]
    topics = _without_secrets([{"content": child.topics} for child in children])
    return Sources(
        kind="condensed",
        chats=_without_secrets(chats),
        days=[_days(child.earliest, child.latest) for child, _ in spoken],
        size=sum(child.tokens for child in children),
        topics=list(map(text_of, topics)),
    )


def dated_pieces(blocks: Sequence[str], tokens: int) -> Iterator[str]:
    """Records of at most so many tokens. One that begins in the middle of a day says which."""
    day = ""
    for piece in pieces_of(blocks, tokens - _DATE_TOKENS):
        last_day = _last_day(piece)
        # Before a message that is too long for one piece, its day is a piece by itself.
        if piece != last_day:
            yield piece if piece.startswith(DATE) or not day else f"{day}\n{piece}"
        day = last_day or day


def _last_day(piece: str) -> str:
    start = 0 if piece.startswith(DATE) else -1
    if (later := piece.rfind(f"\n{DATE}")) >= 0:
        start = later + 1
    return piece[start:].partition("\n")[0] if start >= 0 else ""


def _says_something(chat: ChatDict) -> bool:
    return bool(chat.get("tool_calls") or text_of(chat).strip())


def _without_secrets(chats: Sequence[ChatDict]) -> Sequence[ChatDict]:
    """Before the record is made of them: its labels would part a secret of several lines."""
    words = dict.fromkeys("\n".join(_texts(chats)).split())
    rules = rules_that_may_fire(words)
    return [redact_message(chat, rules) for chat in chats] if rules else chats


def _texts(chats: Iterable[ChatDict]) -> Iterator[str]:
    for chat in chats:
        yield text_of(chat)
        for call in chat.get("tool_calls") or ():
            yield call_of(call)[1]


def _days(earliest: float, latest: float) -> str:
    days = dict.fromkeys(filter(None, (_day(earliest), _day(latest))))
    return " to ".join(days)


def _day(moment: float) -> str:
    """With the day of the week, because people say "on Friday". Empty where the host does not know."""
    day = _date(moment)
    return f"{_WEEKDAYS[day.weekday()]}, {day.isoformat()}" if day else ""


def _date(moment: float) -> date | None:
    if not moment > 0:
        return None
    try:
        return datetime.fromtimestamp(moment, UTC).date()
    except (OverflowError, OSError, ValueError):
        return None
