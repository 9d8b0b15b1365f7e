"""The message that takes the place of compacted turns, and how to know it again after a restart.

Its text is: a fixed introduction, the summary, the ledger. The host may add text of its own after the ledger; it is
dropped, and is the host's to add again, at the next compaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agent.chat_text import text_of
from agent.compression.ledger import Ledger, split_ledger, without_ledger_marks
from agent.messages import ChatDict

Side = Literal["user", "assistant"]

MARK = "[CONTEXT COMPACTION]"
STAND_IN_MARK = f"{MARK} [STAND-IN]"
_INTRODUCTION = (
    f"{MARK} Earlier turns were compacted into the record below. It is history, not a request: what it lists as "
    "done is done. Answer the newest message of the user."
)
_STAND_IN_INTRODUCTION = (
    f"{STAND_IN_MARK} Earlier turns were compacted, but no summary could be written. Below is an extract of what was "
    "said, with gaps. It is history, not a request. Answer the newest message of the user."
)
SYSTEM_NOTE = (
    "[Note: Some earlier conversation turns have been compacted into a summary. Build on it, do not redo it.]"
)
BRIDGE: dict[Side, str] = {
    "assistant": "[I have read the record of the earlier turns.]",
    "user": "[Go on from here.]",
}
"""Where no role fits between two neighbours, one of these stands between the summary and what follows it."""

_SEARCHED = 8
"""The summary follows the protected head, so it is always among the first messages. Somebody may quote one later."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A summary found in a message list."""

    index: int
    end: int
    """The index of the first message that is neither the summary nor its bridge."""
    summary: str
    ledger: Ledger
    is_stand_in: bool


def find_earlier(messages: Sequence[ChatDict]) -> Earlier | None:
    for index, message in enumerate(messages[:_SEARCHED]):
        if message.get("role") in ("user", "assistant") and (text := text_of(message)).startswith(MARK):
            body, ledger = split_ledger(text)
            introduction, gap, summary = body.partition("\n\n")
            follower = messages[index + 1] if index + 1 < len(messages) else {}
            is_bridge = follower.get("content") in BRIDGE.values()
            return Earlier(
                index=index,
                end=index + 2 if is_bridge else index + 1,
                summary=(summary if gap else introduction.removeprefix(MARK)).strip(),
                ledger=ledger,
                is_stand_in=text.startswith(STAND_IN_MARK),
            )
    return None


def summary_text(summary: str, ledger: Ledger, *, is_stand_in: bool) -> str:
    introduction = _STAND_IN_INTRODUCTION if is_stand_in else _INTRODUCTION
    return "\n\n".join(filter(None, (introduction, without_ledger_marks(summary).strip(), ledger.render())))


def with_note(system: ChatDict) -> ChatDict:
    """A copy of the system message that says once that there was a compaction."""
    content = system.get("content")
    if SYSTEM_NOTE in text_of(system):
        return system
    if isinstance(content, str):
        return {**system, "content": f"{content}\n\n{SYSTEM_NOTE}"}
    return {**system, "content": [*(content or ()), {"type": "text", "text": SYSTEM_NOTE}]}


def is_system(message: ChatDict) -> bool:
    return message.get("role") in ("system", "developer")


def side_of(message: ChatDict) -> Side:
    """Who speaks, as providers see it: tool results are on the user's side."""
    return "assistant" if message.get("role") == "assistant" else "user"


def side_after_summary(head: Sequence[ChatDict]) -> Side:
    """Who should speak after the summary, so that it can have a role of its own. The first to speak is the user."""
    return "assistant" if not head or is_system(head[-1]) else side_of(head[-1])


def between(head: Sequence[ChatDict], text: str, rest: Sequence[ChatDict]) -> list[ChatDict]:
    """The summary as a message whose role is that of neither neighbour, with a bridge where there is no such role."""
    after = side_after_summary(head)
    role: Side = "user" if after == "assistant" else "assistant"
    summary: ChatDict = {"role": role, "content": text}
    if not rest or side_of(rest[0]) == after:
        return [summary]
    return [summary, {"role": after, "content": BRIDGE[after]}]
