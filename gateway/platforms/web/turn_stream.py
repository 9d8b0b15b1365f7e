"""Turn events as changes to the page: the server renders, the browser only puts things in their place.

`turn` begins a turn (anew, if already shown), `append` and `note` add a part, `text` adds to the answer being
written, `draw` renders its whole paragraphs, `settle` gives it its final form, `replace` redraws a tool call, `decided`
a question that was answered, `end` ends the turn. `waiting` shows a message whose time has not come; it goes when
something with its id is shown.
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

_WORTH_DRAWING = 80
_SHARE_WORTH_DRAWING = 8
"""All that came before is drawn again each time: not for every short line, and only when an eighth is new.
So the work grows with the length of an answer, not with its square."""


class LiveTurn:
    """Follows the turns of one conversation for one page."""

    def __init__(self, views: HtmlRenderer, conversation_id: str) -> None:
        self._views = views
        self._conversation_id = conversation_id
        self._drawn = ""
        """The part of the answer being written that the page shows rendered."""
        self._plain = ""
        """The rest of it, which the page shows as it comes."""
        self._answered = False
        """Whether text was shown since the turn began or a tool last ran."""
        self._calls: dict[str, ToolCall] = {}
        """Tool calls that are running."""
        self._asked: dict[str, ApprovalAsked] = {}
        """What waits for the person's decision."""
        self._usage = Usage()

    async def updates(self, event: TurnEvent) -> list[Update]:
        match event:
            case TurnStarted(message_id, text):
                return self._begin(message_id, text)
            case TextDelta(text):
                return [await self._write(text)]
            case Queued():
                return [{"op": "waiting", "id": event.message_id, "html": self._views.waiting(event)}]
            case Notice(text):
                return [{"op": "note", "html": self._views.notice(text)}]
            case Compacted():
                return [{"op": "note", "html": self._views.notice(_condensed(event))}]
            case TurnDone(text) if not self._drawn and not self._plain and not self._answered:
                # It did not arrive in pieces.
                self._plain = text
        # All others come after a finished piece of text.
        return await self._settle() + self._after_text(event)

    def _after_text(self, event: TurnEvent) -> list[Update]:
        match event:
            case Steered(message_id, text):
                return [{"op": "append", "id": message_id, "html": self._views.said(message_id, text)}]
            case ToolStarted(call_id, name, arguments):
                return self._tool_started(ToolCall(call_id, name, arguments))
            case ToolFinished():
                return self._tool_finished(event)
            case ApprovalAsked():
                self._asked[event.approval_id] = event
                return [{"op": "append", "html": self._views.approval(event)}]
            case ApprovalSettled():
                return self._settled(event)
            case FileSent():
                sent = SentFile(event.path, event.caption)
                return [{"op": "append", "html": self._views.file(self._conversation_id, sent)}]
            case UsageReported(usage):
                self._usage = _sum(self._usage, usage)
            case TurnDone(_, stopped):
                return self._end(self._views.notice("Stopped.") if stopped else "")
            case TurnFailed(error):
                return self._end(self._views.failure(error))
        return []

    def _begin(self, message_id: str, text: str) -> list[Update]:
        self._drawn, self._plain, self._answered = "", "", False
        self._calls, self._asked, self._usage = {}, {}, Usage()
        return [{"op": "turn", "id": message_id, "html": self._views.said(message_id, text)}]

    async def _write(self, text: str) -> Update:
        """Whole paragraphs are drawn as soon as they are there; the last one stays plain until it is whole."""
        self._plain += text
        end = self._plain.rfind("\n\n")
        if end < max(_WORTH_DRAWING, len(self._drawn) // _SHARE_WORTH_DRAWING):
            return {"op": "text", "text": text}
        self._drawn, self._plain = self._drawn + self._plain[: end + 2], self._plain[end + 2 :]
        html = await asyncio.to_thread(self._views.unfinished, self._drawn)
        return {"op": "draw", "html": html, "rest": self._plain}

    async def _settle(self) -> list[Update]:
        text = self._drawn + self._plain
        self._drawn = self._plain = ""
        if not text:
            return []
        if not text.strip():
            return [{"op": "settle", "html": ""}]
        self._answered = True
        return [{"op": "settle", "html": await asyncio.to_thread(self._views.answer, text)}]

    def _tool_started(self, call: ToolCall) -> list[Update]:
        self._calls[call.id] = call
        self._answered = False
        return [{"op": "append", "html": self._views.tool(ToolView(call, "running"))}]

    def _tool_finished(self, event: ToolFinished) -> list[Update]:
        call = self._calls.pop(event.call_id, ToolCall(event.call_id, event.name, ""))
        view = ToolView(call, "done" if event.ok else "failed", event.result, event.seconds)
        return [{"op": "replace", "id": call.id, "html": self._views.tool(view)}]

    def _settled(self, event: ApprovalSettled) -> list[Update]:
        asked = self._asked.pop(event.approval_id, None)
        if asked is None:
            return []
        html = self._views.approval(asked, event.choice)
        return [{"op": "decided", "id": event.approval_id, "html": html}]

    def _end(self, last_word: str) -> list[Update]:
        updates: list[Update] = [
            {"op": "replace", "id": call.id, "html": self._views.tool(ToolView(call, "abandoned"))}
            for call in self._calls.values()
        ]
        if last_word:
            updates.append({"op": "append", "html": last_word})
        if self._usage.total_tokens:
            updates.append({"op": "append", "html": self._views.usage(self._usage)})
        return [*updates, {"op": "end"}]


def _condensed(event: Compacted) -> str:
    return (
        f"The conversation was condensed from {event.tokens_before:,} to {event.tokens_after:,} tokens. "
        "Everything that was said stays here and can be searched."
    )


def _sum(one: Usage, other: Usage) -> Usage:
    """A price that is known for one part only is no price."""
    numbers = {
        field.name: getattr(one, field.name) + getattr(other, field.name)
        for field in fields(Usage)
        if field.name != "cost_usd"
    }
    first = one == Usage()
    known = other.cost_usd is not None and (first or one.cost_usd is not None)
    return Usage(**numbers, cost_usd=(one.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None)
