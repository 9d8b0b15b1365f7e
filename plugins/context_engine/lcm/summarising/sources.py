"""What only the engine writes, and no model and no text in a conversation may.

The engine sets `[s12 · m101-m148 · …]` above a summary and `(lcm_expand s12 …)` beneath it. A line of a summary that
looks like one would send the reader to the wrong place, or end the summary early.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Literal

from agent.compression.prompt import pieces_of, record_of
from agent.compression.summary_check import check_summary, extract_as_checked, quotes_in
from agent.messages import ChatDict, call_of, text_of
from agent.redaction import redact_message, rules_that_may_fire
from agent.tokens import cut_to_tokens, estimate_text_tokens
from agent.untrusted import in_a_note, own_words, strip_role_markers

from ..graph import Node
from ..messages import StoredMessage

TOPICS = "Expand for details about:"
"""Begins the last line of an answer."""

_DECORATION = r"[\W_]*?(?:\d{1,3}[.)]\W*?)?"
"""Of a list, a quote, a heading, bold type: what may stand before a mark without hiding it from a reader."""
_IMITATION = re.compile(
    rf"{_DECORATION}(?:[\[【［〔]\s*(?:(?:c\d+\s*\.\s*)?[sm]\d+|LCM\b|CONTEXT COMPACTION)|[(（\[]\s*lcm_)"
)
_TOPICS_LINE = re.compile(r"[\W_]*expand for details about[\s*_`]*[:：][\s*_`]*", re.IGNORECASE)
_MAX_PREFIX = 200
"""Characters of a line. A mark stands at its beginning."""
_NONE = frozenset(("", "topics", "none", "nothing", "n/a", "-"))
_AROUND_A_TOPIC = " \t.,;:*_`<>\"'-•·…"


def remove_imitations(text: str) -> str:
    """The text without lines that pass for the engine's, and without signs that part the speakers in a prompt."""
    lines = strip_role_markers(text).splitlines()
    return "\n".join(line.rstrip() for line in lines if not _is_imitation(line)).strip()


def split_topics(answer: str) -> tuple[str, str]:
    """The text and the topics of an answer. They are empty where it has none."""
    lines = answer.rstrip().splitlines()
    last = next(
        (n for n in range(len(lines) - 1, -1, -1) if _TOPICS_LINE.match(lines[n][:_MAX_PREFIX])), None
    )
    if last is None:
        return answer.strip(), ""
    found = _TOPICS_LINE.sub("", lines[last], count=1)
    rest = lines[last + 1 :]
    if not found.strip():
        # Some models write a list beneath it.
        found, rest = ", ".join(line.strip(_AROUND_A_TOPIC) for line in rest if line.strip()), []
    return "\n".join((*lines[:last], *rest)).strip(), clean_topics(found)


def clean_topics(topics: str) -> str:
    line = in_a_note(topics).strip(_AROUND_A_TOPIC)
    return "" if line.casefold() in _NONE else line


def _is_imitation(line: str) -> bool:
    beginning = line[:_MAX_PREFIX]
    return bool(_IMITATION.match(beginning) or _TOPICS_LINE.match(beginning))


FALLBACK_TOKENS = 512
"""The most that a summary written without a model has."""
_TOPIC_TOKENS = 40
_MIN_TOPIC_TOKENS = 10
_TOPIC_SHARE = 4
"""The topics have no more than one part in so many of what a summary is allowed."""
_GAP = " …"
_STUB = 16
"""Characters."""

_END = re.compile(r"[.!?](?=\s|$)|[。！？]|(?<=\S)(?=\n)")
"""Of a sentence, or of a line."""
_BARE_NUMBER = re.compile(r"\d{1,3}[.)]|[-*•]")
"""All that is left of a point of a list."""
_SEPARATOR = re.compile(r"[,;，、；]")


def summary_tokens(content: str, topics: str) -> int:
    """What a summary is counted as: `Written.tokens`."""
    return estimate_text_tokens(content) + estimate_text_tokens(topics)


def topic_tokens(limit: int) -> int:
    """Tokens for the topics of a summary that may have so many."""
    return min(_TOPIC_TOKENS, max(_MIN_TOPIC_TOKENS, limit // _TOPIC_SHARE))


def truncate_text(text: str, tokens: int) -> str:
    """At most so many tokens, with a sign where something is missing if there is room for one."""
    if estimate_text_tokens(text) <= tokens:
        return text
    room = tokens - estimate_text_tokens(_GAP)
    if room < 1:
        return cut_to_tokens(text, max(0, tokens)).rstrip()
    cut = _without_stub(cut_to_tokens(text, room)).rstrip()
    # Estimates do not add up to the token where scripts are mixed.
    return cut + _GAP if estimate_text_tokens(cut + _GAP) <= tokens else cut


def truncate_at_sentence(cut: str) -> str:
    """An answer that ran into its limit, up to its last whole sentence or line, with a sign that more was to come.
    Empty where it has none."""
    ends = [end.end() for end in _END.finditer(cut)]
    whole = cut[: ends[-1]].rstrip() if ends else ""
    before, _, last = whole.rpartition("\n")
    if _BARE_NUMBER.fullmatch(last.strip()):
        whole = before.rstrip()
    return whole + _GAP if whole.strip() else ""


def _without_stub(cut: str) -> str:
    """A last line of little more than a label says nothing."""
    before, line_break, last = cut.rpartition("\n")
    return before if line_break and len(last) < _STUB and before.strip() else cut


def truncate_topics(topics: str, tokens: int) -> str:
    """At most so many tokens, without half a topic where there is a whole one."""
    if estimate_text_tokens(topics) <= tokens:
        return topics
    cut = cut_to_tokens(topics, max(0, tokens))
    ends = [separator.start() for separator in _SEPARATOR.finditer(cut)]
    return cut[: ends[-1]].rstrip() if ends else cut.rstrip()


def make_storable(text: str) -> str:
    """As UTF-8 can hold it and SQLite's functions read it to the end: half of a surrogate pair becomes `?`."""
    if text.isascii():
        return text.replace("\0", " ")
    return text.encode("utf-8", "replace").decode().replace("\0", " ")


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

    def user_quotes(self) -> list[str]:
        """Proof for a quote: messages of the user; above leaves, what checked summaries quote from the user."""
        if self.kind == "leaf":
            return [own_words(text_of(chat)) for chat in self.chats if chat["role"] == "user"]
        return [quote for chat in self.chats for quote in _checked_quotes(chat)]


def _checked_quotes(child: ChatDict) -> Iterator[str]:
    """An extract holds words of the user as they are, and words of others that count for nothing."""
    text = text_of(child)
    if child["role"] == "extract":
        yield from extract_as_checked(text, ()).quotes
        text = "\n".join(line for line in text.split("\n") if not line.startswith("["))
    yield from check_summary(text, quotes_in(text)).quotes


def sources_of_messages(messages: Sequence[StoredMessage]) -> Sources:
    spoken = [message for message in messages if _says_something(message.chat)]
    return Sources(
        kind="leaf",
        chats=_redact([message.chat for message in spoken]),
        days=[_day(message.said_at) for message in spoken],
        size=sum(message.tokens for message in messages),
    )


def sources_of_summaries(children: Sequence[Node]) -> Sources:
    """Beneath a label of their own, so that what a summary quotes is not read as being said now."""
    contents = [remove_imitations(child.content) for child in children]
    spoken = [(child, content) for child, content in zip(children, contents, strict=True) if content]
    chats = [
        {"role": "extract" if child.is_fallback else "summary", "content": content}
        for child, content in spoken
    ]
    topics = _redact([{"content": child.topics} for child in children])
    return Sources(
        kind="condensed",
        chats=_redact(chats),
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


def _redact(chats: Sequence[ChatDict]) -> Sequence[ChatDict]:
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
