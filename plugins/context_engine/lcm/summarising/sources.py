"""Sources of a summary: messages or summaries as a redacted record, and text helpers to clean and truncate answers.

The engine writes `[s12 · m101-m148 · …]` above a summary and `(lcm_expand s12 …)` below it. Lines that imitate these
marks are removed, because they would mislead the reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.compression.prompt import pieces_of, record_of
from agent.compression.summary_check import check_summary, extract_as_checked, quotes_in
from agent.messages import ChatDict, call_of, text_of
from agent.redaction import redact_message, rules_that_may_fire
from agent.tokens import cut_to_tokens, estimate_text_tokens
from agent.untrusted import in_a_note, own_words, strip_role_markers

from ..formatting import to_datetime
from ..graph import Node
from ..messages import StoredMessage

TOPICS = "Expand for details about:"
"""Starts the last line of an answer."""

_DECORATION = r"[\W_]*?(?:\d{1,3}[.)]\W*?)?"
"""List markers, quote marks, heading marks and bold marks that may precede an imitated mark."""
_IMITATION = re.compile(
    rf"{_DECORATION}(?:[\[【［〔]\s*(?:(?:c\d+\s*\.\s*)?[sm]\d+|LCM\b|CONTEXT COMPACTION)|[(（\[]\s*lcm_)"
)
_TOPICS_LINE = re.compile(r"[\W_]*expand for details about[\s*_`]*[:：][\s*_`]*", re.IGNORECASE)
_MAX_PREFIX = 200
"""Characters of a line that are checked."""
_NONE = frozenset(("", "topics", "none", "nothing", "n/a", "-"))
_AROUND_A_TOPIC = " \t.,;:*_`<>\"'-•·…"


def remove_imitations(text: str) -> str:
    """Remove lines that imitate the engine's marks, and role markers."""
    lines = strip_role_markers(text).splitlines()
    kept = (
        line.rstrip()
        for line in lines
        if not _IMITATION.match(line[:_MAX_PREFIX]) and not _TOPICS_LINE.match(line[:_MAX_PREFIX])
    )
    return "\n".join(kept).strip()


def split_topics(answer: str) -> tuple[str, str]:
    """Split an answer into text and topics; the topics may be empty."""
    lines = answer.rstrip().splitlines()
    last = next(
        (n for n in range(len(lines) - 1, -1, -1) if _TOPICS_LINE.match(lines[n][:_MAX_PREFIX])), None
    )
    if last is None:
        return answer.strip(), ""
    found = _TOPICS_LINE.sub("", lines[last], count=1)
    rest = lines[last + 1 :]
    if not found.strip():
        # Some models write a list below it.
        found, rest = ", ".join(line.strip(_AROUND_A_TOPIC) for line in rest if line.strip()), []
    return "\n".join((*lines[:last], *rest)).strip(), clean_topics(found)


def clean_topics(topics: str) -> str:
    line = in_a_note(topics).strip(_AROUND_A_TOPIC)
    return "" if line.casefold() in _NONE else line


FALLBACK_TOKENS = 512
"""Maximum size of a fallback summary."""
_TOPIC_TOKENS = 40
_MIN_TOPIC_TOKENS = 10
_TOPIC_SHARE = 4
"""Topics take at most one part in this many."""
_GAP = " …"
_MIN_LINE = 16
"""Characters. A shorter last line of a cut text is dropped."""

_END = re.compile(r"[.!?](?=\s|$)|[。！？]|(?<=\S)(?=\n)")
"""End of a sentence or a line."""
_BARE_NUMBER = re.compile(r"\d{1,3}[.)]|[-*•]")
"""A list marker without text."""
TOPIC_SEPARATOR = re.compile(r"[,;，、；]")


def summary_tokens(content: str, topics: str) -> int:
    """Return the size of a summary, as in `SummaryText.tokens`."""
    return estimate_text_tokens(content) + estimate_text_tokens(topics)


def topic_tokens(limit: int) -> int:
    """Return the tokens for the topics of a summary of this size."""
    return min(_TOPIC_TOKENS, max(_MIN_TOPIC_TOKENS, limit // _TOPIC_SHARE))


def truncate_text(text: str, tokens: int) -> str:
    """Truncate to the tokens, with an ellipsis if there is room."""
    if estimate_text_tokens(text) <= tokens:
        return text
    room = tokens - estimate_text_tokens(_GAP)
    if room < 1:
        return cut_to_tokens(text, max(0, tokens)).rstrip()
    cut = cut_to_tokens(text, room)
    before, line_break, last = cut.rpartition("\n")
    cut = (before if line_break and len(last) < _MIN_LINE and before.strip() else cut).rstrip()
    # Estimates of mixed scripts do not add up exactly.
    return cut + _GAP if estimate_text_tokens(cut + _GAP) <= tokens else cut


def truncate_at_sentence(cut: str) -> str:
    """Truncate a cut answer after its last complete sentence or line, with an ellipsis; empty if there is none."""
    ends = [end.end() for end in _END.finditer(cut)]
    whole = cut[: ends[-1]].rstrip() if ends else ""
    before, _, last = whole.rpartition("\n")
    if _BARE_NUMBER.fullmatch(last.strip()):
        whole = before.rstrip()
    return whole + _GAP if whole.strip() else ""


def truncate_topics(topics: str, tokens: int) -> str:
    """Truncate to the tokens after a complete topic, if possible."""
    if estimate_text_tokens(topics) <= tokens:
        return topics
    cut = cut_to_tokens(topics, max(0, tokens))
    ends = [separator.start() for separator in TOPIC_SEPARATOR.finditer(cut)]
    return cut[: ends[-1]].rstrip() if ends else cut.rstrip()


DATE = "[DATE] "
"""Starts a date line. All other lines of the record start with their speaker."""
_DATE_TOKENS = 16
"""Maximum size of a date line."""


@dataclass(frozen=True, slots=True)
class Sources:
    kind: Literal["leaf", "condensed"]
    chats: Sequence[ChatDict]
    """Messages with text; for a condensed summary, one per child."""
    days: Sequence[str]
    """Day of each message, if known."""
    size: int
    """Tokens of all sources. A summary must be smaller."""
    topics: Sequence[str] = ()
    """Topics of the children."""

    def record(self) -> list[str]:
        """Return blocks for `pieces_of`, with a date line wherever the day changes."""
        blocks: list[str] = []
        today = ""
        for chat, day in zip(self.chats, self.days, strict=True):
            if day and day != today:
                today = day
                blocks.append(DATE + day)
            blocks += record_of([chat])
        return blocks

    def user_quotes(self) -> list[str]:
        """Return texts that prove a quote: user messages, or quotes in checked summaries."""
        if self.kind == "leaf":
            return [own_words(text_of(chat)) for chat in self.chats if chat["role"] == "user"]
        return [quote for chat in self.chats for quote in _checked_quotes(chat)]


def _checked_quotes(child: ChatDict) -> Iterator[str]:
    """Yield quotes of the user. In an extract, lines with a label are of others."""
    text = text_of(child)
    if child["role"] == "extract":
        yield from extract_as_checked(text, ()).quotes
        text = "\n".join(line for line in text.split("\n") if not line.startswith("["))
    yield from check_summary(text, quotes_in(text)).quotes


def sources_of_messages(messages: Sequence[StoredMessage]) -> Sources:
    spoken = [each for each in messages if each.chat.get("tool_calls") or text_of(each.chat).strip()]
    return Sources(
        kind="leaf",
        chats=_redact([message.chat for message in spoken]),
        days=[_day(message.said_at) for message in spoken],
        size=sum(message.tokens for message in messages),
    )


def sources_of_summaries(children: Sequence[Node]) -> Sources:
    """Label children as summaries, so that their quotes are not read as new messages."""
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
        days=[
            " to ".join(dict.fromkeys(filter(None, (_day(child.earliest), _day(child.latest)))))
            for child, _ in spoken
        ],
        size=sum(child.tokens for child in children),
        topics=list(map(text_of, topics)),
    )


def dated_pieces(blocks: Sequence[str], tokens: int) -> Iterator[str]:
    """Split the record into pieces of at most these tokens, each starting with its date."""
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


def _redact(chats: Sequence[ChatDict]) -> Sequence[ChatDict]:
    """Redact before the record is made: its labels would split a secret of several lines."""
    texts = [text_of(chat) for chat in chats]
    texts += [call_of(call)[1] for chat in chats for call in chat.get("tool_calls") or ()]
    rules = rules_that_may_fire(dict.fromkeys("\n".join(texts).split()))
    return [redact_message(chat, rules) for chat in chats] if rules else chats


def _day(timestamp: float) -> str:
    """Format with the weekday, because people say "on Friday". Empty if the time is unknown."""
    moment = to_datetime(timestamp) if timestamp > 0 else None
    return f"{moment:%A, %Y-%m-%d}" if moment else ""
