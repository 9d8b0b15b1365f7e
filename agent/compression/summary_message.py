"""The message that replaces compacted turns, and how to recognise it after a restart.

The engine reads summary and ledger back from `STATE`, the data beside the message; from its text only if there is no
data, as in old versions. A message of a person or a tool has a `message_id` and no `STATE`, so no mark in it counts.
The host may add a block behind the summary, which engines never see.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from agent.compression.ledger import Ledger, split_ledger, without_ledger_marks
from agent.messages import KIND, MESSAGE_ID, OUTSIDE, STATE, ChatDict, Message, text_of
from agent.untrusted import own_words

Side = Literal["user", "assistant"]

MARK = "[CONTEXT COMPACTION]"
_FALLBACK_MARK = f"{MARK} [STAND-IN]"
_INTRODUCTION = (
    f"{MARK} Earlier turns were compacted into the record below. It is history, not a request: what it lists as "
    "done is done. Answer the newest message of the user."
)
_FALLBACK_INTRODUCTION = (
    f"{_FALLBACK_MARK} Earlier turns were compacted, but no summary could be written. Below is an extract of what was "
    "said, with gaps. It is history, not a request. Answer the newest message of the user."
)
SYSTEM_NOTE = (
    "[Note: Some earlier conversation turns have been compacted into a summary. Build on it, do not redo it.]"
)
BRIDGE: dict[Side, str] = {
    "assistant": "[I have read the record of the earlier turns.]",
    "user": "[Go on from here.]",
}
"""Follows the summary if no role differs from both neighbours."""

_FOREIGN_MARKS = ("[LCM RECORD]",)
_RECORD_LINES = re.compile(
    r"^(?:\[LCM RECORD\][^\n]*|\[s\d+ · m\d+[^\]\n]*\]|\(lcm_expand s\d+[^\n]*\))$\n*", re.MULTILINE
)
"""Lines that lcm writes around its summaries."""
OWN_WORDS = (_INTRODUCTION, _FALLBACK_INTRODUCTION, SYSTEM_NOTE, *BRIDGE.values())

_MAX_SEARCHED = 8
"""Messages searched for a summary: it follows the protected head. Later messages may only quote one."""
_SUMMARY = "summary"
_IS_FALLBACK = "is_stand_in"
_LEDGER = "ledger"
_QUOTES = "quotes"


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary with its ledger, and the state that the next compaction needs."""

    text: str = ""
    ledger: Ledger = field(default_factory=Ledger)
    is_fallback: bool = False
    """The text is an extract, because no summary could be written."""
    quotes: tuple[str, ...] = ()
    """The user's words in the summary that were found in their messages."""
    identifiers_lost: int = 0


@dataclass(frozen=True, slots=True)
class PreviousSummary:
    """A summary found in a message list."""

    index: int
    end: int
    """Index behind the summary and its bridge."""
    summary: Summary

    @property
    def indices(self) -> range:
        return range(self.index, self.end)


def find_earlier(messages: Sequence[ChatDict]) -> PreviousSummary | None:
    for index, message in enumerate(messages[:_MAX_SEARCHED]):
        if message.get("role") not in ("user", "assistant") or not is_by_an_engine(message):
            continue
        follower = messages[index + 1] if index + 1 < len(messages) else {}
        is_bridge = follower.get("content") in BRIDGE.values() and is_by_an_engine(follower)
        end = index + 2 if is_bridge else index + 1
        data = message.get(STATE) or {}
        if isinstance(summary := data.get(_SUMMARY), str):
            quotes = tuple(quote for quote in data.get(_QUOTES) or () if isinstance(quote, str))
            is_fallback = data.get(_IS_FALLBACK) is True
            found = Summary(summary, Ledger.from_data(data.get(_LEDGER)), is_fallback, quotes)
            return PreviousSummary(index, end, found)
        if not data and (text := text_of(message)).startswith(MARK):
            body, ledger = split_ledger(text)
            introduction, gap, summary = body.partition("\n\n")
            summary = (summary if gap else introduction.removeprefix(MARK)).strip()
            return PreviousSummary(index, end, Summary(summary, ledger, text.startswith(_FALLBACK_MARK)))
    return None


def find_foreign(messages: Sequence[ChatDict], earlier: PreviousSummary | None) -> frozenset[int]:
    """Return the indices of other engines' messages, by their kind or by the mark of an early record."""
    known = earlier.indices if earlier else range(0)
    newest = max((i for i, message in enumerate(messages) if message.get("role") == "user"), default=0)
    found: set[int] = set()
    for index, message in enumerate(messages):
        if index in known or message.get("role") not in ("user", "assistant"):
            continue
        # The newest message of the user is always a request.
        is_early = index < min(_MAX_SEARCHED, newest) and is_by_an_engine(message)
        is_record = is_early and text_of(message).startswith(_FOREIGN_MARKS)
        is_bridge = index - 1 in found and message.get("content") in BRIDGE.values()
        if message.get(KIND) in ("summary", "note") or is_record or is_bridge:
            found.add(index)
    return frozenset(found)


def foreign_text(message: ChatDict) -> tuple[ChatDict, Ledger]:
    """Return the text of another engine's message, under its own label and without a time, and its ledger."""
    text = split_ledger(text_of(message))[0]
    if text.startswith(_FOREIGN_MARKS):
        text = _RECORD_LINES.sub("", text).strip()
    role = "note" if message.get(KIND) == "note" or text in BRIDGE.values() else "earlier summary"
    return {"role": role, "content": text}, ledger_of(message)


def said_by_user(messages: Sequence[ChatDict], earlier: PreviousSummary | None) -> list[str]:
    """Return the user's own words. An earlier summary does not prove a quote."""
    skipped = earlier.index if earlier else -1
    return [
        own_words(text_of(message))
        for index, message in enumerate(messages)
        if message["role"] == "user" and not {STATE, KIND} & message.keys() and index != skipped
    ]


def ids_of(messages: Iterable[ChatDict]) -> frozenset[str]:
    return frozenset(message[MESSAGE_ID] for message in messages if MESSAGE_ID in message)


def ledger_of(message: ChatDict) -> Ledger:
    data = message.get(STATE) or {}
    return Ledger.from_data(data[_LEDGER]) if _LEDGER in data else split_ledger(text_of(message))[1]


def ledger_state(ledger: Ledger) -> ChatDict:
    return {_LEDGER: ledger.as_data()}


def summary_messages(head: Sequence[ChatDict], summary: Summary, rest: Sequence[ChatDict]) -> list[ChatDict]:
    """Return the summary between head and rest, with the state that `find_earlier` reads."""
    state = {
        _SUMMARY: summary.text,
        _IS_FALLBACK: summary.is_fallback,
        _QUOTES: list(summary.quotes),
        **ledger_state(summary.ledger),
    }
    return between(head, summary_text(summary), rest, state=state)


def is_by_an_engine(message: ChatDict) -> bool:
    """Return whether an engine wrote it: the host gives others an id and no `STATE`."""
    return STATE in message or MESSAGE_ID not in message


def summary_text(summary: Summary) -> str:
    introduction = _FALLBACK_INTRODUCTION if summary.is_fallback else _INTRODUCTION
    text = without_ledger_marks(summary.text).strip()
    return "\n\n".join(filter(None, (introduction, text, summary.ledger.render())))


def with_note(system: ChatDict) -> ChatDict:
    """Return a copy of the system message that mentions the compaction once."""
    content = system.get("content")
    if SYSTEM_NOTE in text_of(system):
        return system
    if isinstance(content, str):
        return {**system, "content": f"{content}\n\n{SYSTEM_NOTE}"}
    return {**system, "content": [*(content or ()), {"type": "text", "text": SYSTEM_NOTE}]}


def is_system(message: ChatDict) -> bool:
    return message.get("role") in ("system", "developer")


def side_of(message: ChatDict) -> Side:
    """Return the speaker's side as providers see it: tool results are on the user's side."""
    return "assistant" if message.get("role") == "assistant" else "user"


def side_after_summary(head: Sequence[ChatDict]) -> Side:
    """Return the side that should follow the summary, so that roles alternate. The user speaks first."""
    return "assistant" if not head or is_system(head[-1]) else side_of(head[-1])


def between(
    head: Sequence[ChatDict], text: str, rest: Sequence[ChatDict], *, state: ChatDict
) -> list[ChatDict]:
    """Return the summary as a message whose role differs from both neighbours, with a bridge where no role does."""
    after = side_after_summary(head)
    role: Side = "user" if after == "assistant" else "assistant"
    summary: ChatDict = {"role": role, "content": text, STATE: state}
    if not rest or side_of(rest[0]) == after:
        return [summary]
    return [summary, {"role": after, "content": BRIDGE[after]}]


_BEGIN = "\n\n[STATE CARRIED OVER]\n"
_END = "\n[END OF STATE]"
MARKS = (_BEGIN.strip(), _END.strip())
_ENGINE = "engine"
_BLOCK = "block"


def new_state(of_engine: ChatDict, *, outside: bool) -> ChatDict:
    """`outside`: the replaced messages had text of others. No later summary forgets it."""
    return {_ENGINE: of_engine, _BLOCK: "", OUTSIDE: outside}


def with_block(summary: Message, state: str) -> Message:
    block = f"{_BEGIN}{state}{_END}"
    return replace(summary, content=summary.content + block, state={**(summary.state or {}), _BLOCK: block})


def block_of(summary: Message) -> str:
    """Return the block with its marks. In summaries of old versions it follows the last mark."""
    if summary.state is not None:
        return str(summary.state.get(_BLOCK, ""))
    text = summary.content
    at = text.rfind(_BEGIN) if text.endswith(_END) else -1
    return text[at:] if at >= 0 else ""


def text_of_engine(summary: Message) -> str:
    return summary.content.removesuffix(block_of(summary))


def state_of_engine(summary: Message) -> ChatDict:
    found = (summary.state or {}).get(_ENGINE)
    return found if isinstance(found, dict) else {}
