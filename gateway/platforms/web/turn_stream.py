"""Translates turn events into updates of the page: the server renders HTML, the browser inserts it.

Operations: `turn` starts a turn (or redraws one that is shown), `append` and `note` add a part, `text` appends to the
answer being written, `draw` renders its complete paragraphs, `settle` finishes it, `replace` redraws a tool call,
`decided` an answered approval, `end` ends the turn. `waiting` shows a queued message, which disappears when an update
with its id arrives.
"""

from __future__ import annotations

import asyncio
from dataclasses import fields
from typing import Any

from agent.events import (
    ApprovalAsked,
    ApprovalSettled,
    Compacted,
    FileSent,
    Notice,
    Queued,
    Steered,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnEvent,
    TurnFailed,
    TurnStarted,
    UsageReported,
)
from agent.llm import Usage
from agent.messages import ToolCall
from gateway.platforms.web.renderer import HtmlRenderer, ToolView
from gateway.platforms.web.tool_history import SentFile

Update = dict[str, Any]

_MIN_DRAWN = 80
_MIN_DRAWN_SHARE = 8
"""Each drawing renders the whole answer again, so it waits until an eighth of the answer is new. The work then grows
with the length of an answer, not with its square."""


class LiveTurn:
    """Translates the events of one conversation for one page."""

    def __init__(self, renderer: HtmlRenderer, conversation_id: str) -> None:
        self._renderer = renderer
        self._conversation_id = conversation_id
        self._drawn = ""
        """The part of the current answer that the page shows rendered."""
        self._plain = ""
        """The rest of the current answer, which the page shows as plain text."""
        self._answered = False
        """Whether text was shown since the turn started or the last tool ran."""
        self._calls: dict[str, ToolCall] = {}
        """Running tool calls."""
        self._asked: dict[str, ApprovalAsked] = {}
        """Open approvals."""
        self._usage = Usage()

    async def updates(self, event: TurnEvent) -> list[Update]:
        match event:
            case TurnStarted(message_id, text):
                return self._start_turn(message_id, text)
            case TextDelta(text):
                return [await self._append_text(text)]
            case Queued():
                return [{"op": "waiting", "id": event.message_id, "html": self._renderer.waiting(event)}]
            case Notice(text):
                return [{"op": "note", "html": self._renderer.notice(text)}]
            case Compacted():
                return [{"op": "note", "html": self._renderer.notice(_compaction_notice(event))}]
            case TurnDone(text) if not self._drawn and not self._plain and not self._answered:
                # The text was not streamed.
                self._plain = text
        # Every other event ends the current text.
        return await self._finish_text() + self._after_text(event)

    def _after_text(self, event: TurnEvent) -> list[Update]:
        match event:
            case Steered(message_id, text):
                return [
                    {"op": "append", "id": message_id, "html": self._renderer.user_message(message_id, text)}
                ]
            case ToolStarted(call_id, name, arguments):
                return self._tool_started(ToolCall(call_id, name, arguments))
            case ToolFinished():
                return self._tool_finished(event)
            case ApprovalAsked():
                self._asked[event.approval_id] = event
                return [{"op": "append", "html": self._renderer.approval(event)}]
            case ApprovalSettled():
                return self._approval_settled(event)
            case FileSent():
                sent = SentFile(event.path, event.caption)
                return [{"op": "append", "html": self._renderer.file(self._conversation_id, sent)}]
            case UsageReported(usage):
                self._usage = _sum(self._usage, usage)
            case TurnDone(_, stopped):
                return self._end(self._renderer.notice("Stopped.") if stopped else "")
            case TurnFailed(error):
                return self._end(self._renderer.failure(error))
        return []

    def _start_turn(self, message_id: str, text: str) -> list[Update]:
        self._drawn, self._plain, self._answered = "", "", False
        self._calls, self._asked, self._usage = {}, {}, Usage()
        return [{"op": "turn", "id": message_id, "html": self._renderer.user_message(message_id, text)}]

    async def _append_text(self, text: str) -> Update:
        """Render complete paragraphs; the last one stays plain until it is complete."""
        self._plain += text
        end = self._plain.rfind("\n\n")
        if end < max(_MIN_DRAWN, len(self._drawn) // _MIN_DRAWN_SHARE):
            return {"op": "text", "text": text}
        self._drawn, self._plain = self._drawn + self._plain[: end + 2], self._plain[end + 2 :]
        html = await asyncio.to_thread(self._renderer.partial_answer, self._drawn)
        return {"op": "draw", "html": html, "rest": self._plain}

    async def _finish_text(self) -> list[Update]:
        text = self._drawn + self._plain
        self._drawn = self._plain = ""
        if not text:
            return []
        if not text.strip():
            return [{"op": "settle", "html": ""}]
        self._answered = True
        return [{"op": "settle", "html": await asyncio.to_thread(self._renderer.answer, text)}]

    def _tool_started(self, call: ToolCall) -> list[Update]:
        self._calls[call.id] = call
        self._answered = False
        return [{"op": "append", "html": self._renderer.tool(ToolView(call, "running"))}]

    def _tool_finished(self, event: ToolFinished) -> list[Update]:
        call = self._calls.pop(event.call_id, ToolCall(event.call_id, event.name, ""))
        view = ToolView(call, "done" if event.ok else "failed", event.result, event.seconds)
        return [{"op": "replace", "id": call.id, "html": self._renderer.tool(view)}]

    def _approval_settled(self, event: ApprovalSettled) -> list[Update]:
        asked = self._asked.pop(event.approval_id, None)
        if asked is None:
            return []
        html = self._renderer.approval(asked, event.choice)
        return [{"op": "decided", "id": event.approval_id, "html": html}]

    def _end(self, last_part: str) -> list[Update]:
        updates: list[Update] = [
            {"op": "replace", "id": call.id, "html": self._renderer.tool(ToolView(call, "abandoned"))}
            for call in self._calls.values()
        ]
        if last_part:
            updates.append({"op": "append", "html": last_part})
        if self._usage.total_tokens:
            updates.append({"op": "append", "html": self._renderer.usage(self._usage)})
        return [*updates, {"op": "end"}]


def _compaction_notice(event: Compacted) -> str:
    return (
        f"The conversation was compacted from {event.tokens_before:,} to {event.tokens_after:,} tokens. "
        "All messages stay here and can be searched."
    )


def _sum(one: Usage, other: Usage) -> Usage:
    """Add two usages; the cost is unknown if one of them is unknown."""
    numbers = {
        field.name: getattr(one, field.name) + getattr(other, field.name)
        for field in fields(Usage)
        if field.name != "cost_usd"
    }
    first = one == Usage()
    known = other.cost_usd is not None and (first or one.cost_usd is not None)
    return Usage(**numbers, cost_usd=(one.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None)
