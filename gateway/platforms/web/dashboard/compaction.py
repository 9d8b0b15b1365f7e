"""A split: the summary beside what it replaced."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from agent.compression.ledger import BEGIN
from agent.compression.summary_state import block_of, text_of_engine
from agent.errors import NotFound
from agent.messages import Message
from agent.tokens import MESSAGE_TOKENS, estimate_text_tokens
from gateway.platforms.web.dashboard import request_params as address
from gateway.platforms.web.dashboard.conversation import facts
from gateway.platforms.web.dashboard.conversations import ADDRESS
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.platforms.web.dashboard.session_graph import line_to
from gateway.platforms.web.dashboard.transcript import REASONS, Reader, Spoken, discreet
from gateway.platforms.web.markdown import render_markdown_cached
from gateway.platforms.web.renderer import HtmlRenderer
from gateway.platforms.web.templating import local_time
from gateway.store.reports import CompactionDiff

_SHOWN = 50
_CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Summary:
    """What an engine wrote in the place of messages."""

    html: str
    ledger: str
    """What it keeps word for word."""
    carried: str
    """State of the conversation that the host put behind it."""
    tokens: int


def routes(house: DashboardContext, frame: PageRenderer) -> list[web.RouteDef]:
    reader = Reader(HtmlRenderer(house.model))

    async def show(request: web.Request) -> web.Response:
        about = await facts(house, request)
        conversation = about["conversation"]
        sessions = await house.insight.conversations.sessions(conversation.id)
        numbers = {session.id: number for number, session in enumerate(sessions, start=1)}
        known = {session.id: session for session in sessions}
        child = known.get(request.match_info["session_id"])
        if child is None or child.parent_id is None:
            raise NotFound
        first = address.number(request, "from", 1)
        replaced = await house.insight.conversations.compaction_diff(child.id, first=first, limit=_SHOWN)
        if first > max(1, replaced.left.total):
            raise web.HTTPNotFound(text=f"Only {replaced.left.total:,} messages were replaced here.")
        ancestors = line_to(sessions, conversation.live_session_id)[:-1]
        drawn = await asyncio.to_thread(_drawn, reader, replaced, about["person"])
        shown = {
            **about,
            **drawn,
            **_pages(about["address"], child.id, replaced),
            "session": child,
            "number": numbers[child.id],
            "parent": known[child.parent_id],
            "parent_number": numbers[child.parent_id],
            "reason": REASONS[child.reason],
            "when": local_time(child.created_at),
            "can_restore": child.parent_id in ancestors,
        }
        return frame.answer(request, "dashboard/conversation_split.html", shown)

    return [web.get(f"{ADDRESS}/{{id}}/splits/{{session_id}}", show)]


def _drawn(reader: Reader, replaced: CompactionDiff, person: str) -> dict[str, Any]:
    summaries = [message for message in replaced.written if message.kind == "summary"]
    count, left = replaced.left.total, replaced.left
    return {
        "summaries": [_summary(message) for message in summaries],
        "shortened": len(replaced.written) - len(summaries),
        "pairs": _pairs(reader, replaced, person),
        "kept": replaced.kept,
        "gone": reader.spoken(left.messages, person),
        "gone_total": count,
        "gone_tokens": replaced.left_characters // _CHARACTERS_A_TOKEN + MESSAGE_TOKENS * count,
        "first": left.first,
        "last": left.first + len(left.messages) - 1,
    }


def _pairs(reader: Reader, replaced: CompactionDiff, person: str) -> list[tuple[Spoken, Spoken]]:
    """What was shortened, and what it was before."""
    originals = {message.id: message for message in replaced.originals}
    pairs = [(each, originals[each.source_id]) for each in replaced.written if each.source_id in originals]
    # One by one: a result would be drawn into the call that it belongs to.
    return [(_alone(reader, short, person), _alone(reader, whole, person)) for short, whole in pairs[:_SHOWN]]


def _alone(reader: Reader, message: Message, person: str) -> Spoken:
    return reader.spoken([message], person)[0]


def _summary(message: Message) -> Summary:
    body = discreet(text_of_engine(message))
    text, mark, ledger = body.rpartition(f"\n{BEGIN}\n")
    return Summary(
        render_markdown_cached((text if mark else ledger).strip()),
        f"{mark}{ledger}".strip() if mark else "",
        discreet(block_of(message)).strip(),
        estimate_text_tokens(message.content),
    )


def _pages(address: str, session_id: str, replaced: CompactionDiff) -> dict[str, str]:
    here, left = f"{address}/splits/{session_id}", replaced.left
    earlier = f"{here}?from={max(1, left.first - _SHOWN)}" if left.first > 1 else ""
    follows = left.first + _SHOWN
    return {"earlier": earlier, "later": f"{here}?from={follows}" if follows <= left.total else ""}
