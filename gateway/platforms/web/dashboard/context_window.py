"""The page about the context window of a conversation: the chart of its use and the graph of its sessions."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from agent.store import Conversation
from gateway.core.session_policy import HYGIENE_THRESHOLD
from gateway.platforms.web import request_params as params
from gateway.platforms.web.dashboard.context_chart import (
    ContextWindow,
    Limit,
    render_context_chart,
    session_segments,
)
from gateway.platforms.web.dashboard.conversation import conversation_facts, conversation_version
from gateway.platforms.web.dashboard.conversations import ADDRESS
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.platforms.web.dashboard.session_graph import UNFOLDED, build_session_graph, path_to

_MAX_SESSIONS = 100
"""Sessions in the chart and its table unless all are requested: more drops are not readable."""


def routes(context: DashboardContext, page: PageRenderer) -> list[web.RouteDef]:
    async def gather(request: web.Request) -> dict[str, Any]:
        about = await conversation_facts(context, request)
        conversation = about["conversation"]
        conversations = context.reports.conversations
        sessions = await conversations.sessions(conversation.id)
        calls = await conversations.context_samples(conversation.live_session_id)
        window = await _window(context, conversation)
        line = path_to(sessions, conversation.live_session_id)
        everything = request.query.get("chart") == "all"
        unfolded_from = params.positive_int(request, "unfold", 0) or None

        def draw() -> dict[str, Any]:
            segments = session_segments(sessions, line, calls)
            charted = segments if everything else segments[-_MAX_SESSIONS:]
            return {
                "chart": render_context_chart(charted, window) if any(each.calls for each in charted) else "",
                "rows": charted[-_MAX_SESSIONS:],
                "charted": len(charted),
                "could_be_charted": len(segments),
                "graph": build_session_graph(
                    sessions, conversation.live_session_id, unfolded_from=unfolded_from
                ),
            }

        return {
            **about,
            **await asyncio.to_thread(draw),
            "window": window,
            "rule": _rule(context, window),
            "unfolded": UNFOLDED,
        }

    async def version(request: web.Request) -> object:
        return await conversation_version(context, request)

    return page.live(f"{ADDRESS}/{{id}}/context", "dashboard/conversation_context.html", gather, version)


async def _window(context: DashboardContext, conversation: Conversation) -> ContextWindow:
    """Describe the window and its limits. The engine reports its threshold once it runs; before, the configured one
    counts."""
    agent = context.gateway.agent
    llm = await agent.models.in_use(conversation)
    configured = round(llm.context_length * context.loaded.config.compression.threshold)
    status = await agent.engine_status(conversation)
    tokens = (status.threshold_tokens if status else 0) or configured
    engine = status.name if status else context.engine
    limits = [
        Limit(round(llm.context_length * HYGIENE_THRESHOLD), HYGIENE_THRESHOLD, "session hygiene"),
        Limit(tokens, tokens / max(llm.context_length, 1), engine),
    ]
    return ContextWindow(llm.model, llm.context_length, limits)


def _rule(context: DashboardContext, window: ContextWindow) -> str:
    hygiene, engine = window.limits
    if not context.gateway.agent.compacts_automatically:
        return (
            f"The window of {window.model} holds {window.tokens:,} tokens. `compression.enabled` is off, so Hermes "
            "compacts only on request; the lines show where it would compact."
        )
    setting = " (`compression.threshold`)" if engine.what == "compressor" else ""
    return (
        f"The window of {window.model} holds {window.tokens:,} tokens. `{engine.what}` compacts at "
        f"{engine.share:.0%}{setting}, and session hygiene always at {hygiene.share:.0%}."
    )
