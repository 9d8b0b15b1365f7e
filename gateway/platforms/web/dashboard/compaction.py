"""The page of one compaction: the summary beside the messages it replaced."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from agent.compression.ledger import BEGIN
from agent.compression.summary_message import block_of, text_of_engine
from agent.errors import NotFound
from agent.messages import Message
from agent.tokens import MESSAGE_TOKENS, estimate_text_tokens
from gateway.platforms.web import request_params as params
from gateway.platforms.web.dashboard.conversation import conversation_facts
from gateway.platforms.web.dashboard.conversations import ADDRESS
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.platforms.web.dashboard.session_graph import path_to
from gateway.platforms.web.dashboard.transcript import (
    REASONS,
    TranscriptMessage,
    TranscriptRenderer,
    redact_text,
)
from gateway.platforms.web.markdown import render_markdown_cached
from gateway.platforms.web.renderer import HtmlRenderer
from gateway.platforms.web.templating import local_time
from gateway.store.reports import CompactionDiff

_PAGE_SIZE = 50
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Summary:
    """The text that an engine wrote to replace messages."""

    html: str
    ledger: str
    """Facts and rules that the summary keeps verbatim."""
    carried: str
    """State of the conversation that the host appends to the summary."""
    tokens: int


def routes(context: DashboardContext, page: PageRenderer) -> list[web.RouteDef]:
    transcripts = TranscriptRenderer(HtmlRenderer(context.model))

    async def show(request: web.Request) -> web.Response:
        about = await conversation_facts(context, request)
        conversation = about["conversation"]
        sessions = await context.reports.conversations.sessions(conversation.id)
        numbers = {session.id: number for number, session in enumerate(sessions, start=1)}
        known = {session.id: session for session in sessions}
        child = known.get(request.match_info["session_id"])
        if child is None or child.parent_id is None:
            raise NotFound
        first = params.positive_int(request, "from", 1)
        replaced = await context.reports.conversations.compaction_diff(
            child.id, first=first, limit=_PAGE_SIZE
        )
        if first > max(1, replaced.left.total):
            raise web.HTTPNotFound(text=f"This compaction replaced only {replaced.left.total:,} messages.")
        ancestors = path_to(sessions, conversation.live_session_id)[:-1]
        rendered = await asyncio.to_thread(_render_diff, transcripts, replaced, about["person"])
        variables = {
            **about,
            **rendered,
            **_pages(about["address"], child.id, replaced),
            "session": child,
            "number": numbers[child.id],
            "parent": known[child.parent_id],
            "parent_number": numbers[child.parent_id],
            "reason": REASONS[child.reason],
            "when": local_time(child.created_at),
            "can_restore": child.parent_id in ancestors,
        }
        return page.render(request, "dashboard/conversation_compaction.html", variables)

    return [web.get(f"{ADDRESS}/{{id}}/splits/{{session_id}}", show)]


def _render_diff(transcripts: TranscriptRenderer, replaced: CompactionDiff, person: str) -> dict[str, Any]:
    summaries = [message for message in replaced.written if message.kind == "summary"]
    count, left = replaced.left.total, replaced.left
    return {
        "summaries": [_summary(message) for message in summaries],
        "shortened": len(replaced.written) - len(summaries),
        "pairs": _pairs(transcripts, replaced, person),
        "kept": replaced.kept,
        "gone": transcripts.messages(left.messages, person),
        "gone_total": count,
        "gone_tokens": replaced.left_characters // _CHARACTERS_PER_TOKEN + MESSAGE_TOKENS * count,
        "first": left.first,
        "last": left.first + len(left.messages) - 1,
    }


def _pairs(
    transcripts: TranscriptRenderer, replaced: CompactionDiff, person: str
) -> list[tuple[TranscriptMessage, TranscriptMessage]]:
    """Return each shortened message with its original."""
    originals = {message.id: message for message in replaced.originals}
    pairs = [(each, originals[each.source_id]) for each in replaced.written if each.source_id in originals]

    def alone(message: Message) -> TranscriptMessage:
        """Render one message by itself; together, a result would be drawn into its call."""
        return transcripts.messages([message], person)[0]

    return [(alone(short), alone(whole)) for short, whole in pairs[:_PAGE_SIZE]]


def _summary(message: Message) -> Summary:
    body = redact_text(text_of_engine(message))
    text, mark, ledger = body.rpartition(f"\n{BEGIN}\n")
    return Summary(
        render_markdown_cached((text if mark else ledger).strip()),
        f"{mark}{ledger}".strip() if mark else "",
        redact_text(block_of(message)).strip(),
        estimate_text_tokens(message.content),
    )


def _pages(address: str, session_id: str, replaced: CompactionDiff) -> dict[str, str]:
    here, left = f"{address}/splits/{session_id}", replaced.left
    earlier = f"{here}?from={max(1, left.first - _PAGE_SIZE)}" if left.first > 1 else ""
    following = left.first + _PAGE_SIZE
    return {"earlier": earlier, "later": f"{here}?from={following}" if following <= left.total else ""}
