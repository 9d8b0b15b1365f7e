"""How a conversation is kept inside the window: the chart, the family tree, and what can be done about it."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from agent.store import Conversation
from gateway.core.session_policy import HYGIENE_THRESHOLD
from gateway.platforms.web.dashboard import request_params as address
from gateway.platforms.web.dashboard.context_chart import Limit, Window, drawn, stretches
from gateway.platforms.web.dashboard.conversation import facts, version_of
from gateway.platforms.web.dashboard.conversations import ADDRESS
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.platforms.web.dashboard.session_graph import UNFOLDED, family, line_to

_NEWEST = 100
"""So many sessions are in the chart and in its table, unless all are asked for: a thousand drops are a wall."""


def routes(house: DashboardContext, frame: PageRenderer) -> list[web.RouteDef]:
    async def gather(request: web.Request) -> dict[str, Any]:
        about = await facts(house, request)
        conversation = about["conversation"]
        conversations = house.insight.conversations
        sessions = await conversations.sessions(conversation.id)
        calls = await conversations.context_samples(conversation.live_session_id)
        window = await _window(house, conversation)
        line = line_to(sessions, conversation.live_session_id)
        everything = request.query.get("chart") == "all"
        unfolded_from = address.number(request, "unfold", 0) or None

        def draw() -> dict[str, Any]:
            seen = stretches(sessions, line, calls)
            charted = seen if everything else seen[-_NEWEST:]
            return {
                "chart": drawn(charted, window) if any(each.calls for each in charted) else "",
                "rows": charted[-_NEWEST:],
                "charted": len(charted),
                "could_be_charted": len(seen),
                "family": family(sessions, conversation.live_session_id, unfolded_from=unfolded_from),
            }

        return {
            **about,
            **await asyncio.to_thread(draw),
            "window": window,
            "rule": _rule(house, window),
            "unfolded": UNFOLDED,
        }

    async def version(request: web.Request) -> object:
        return await version_of(house, request)

    return frame.page(f"{ADDRESS}/{{id}}/context", "dashboard/conversation_context.html", gather, version)


async def _window(house: DashboardContext, conversation: Conversation) -> Window:
    """Where the engine compacts, as it says itself once it is at work; before that, as it is configured."""
    agent = house.gateway.agent
    llm = await agent.models.in_use(conversation)
    configured = round(llm.context_length * house.loaded.config.compression.threshold)
    status = await agent.engine_status(conversation)
    tokens = (status.threshold_tokens if status else 0) or configured
    engine = status.name if status else house.engine
    limits = [
        Limit(round(llm.context_length * HYGIENE_THRESHOLD), HYGIENE_THRESHOLD, "session hygiene"),
        Limit(tokens, tokens / max(llm.context_length, 1), engine),
    ]
    return Window(llm.model, llm.context_length, limits)


def _rule(house: DashboardContext, window: Window) -> str:
    hygiene, engine = window.limits
    if not house.gateway.agent.keeper.enabled:
        return (
            f"The window of {window.model} holds {window.tokens:,} tokens. `compression.enabled` is off, so nothing "
            "is compacted by itself; the lines show where it would be."
        )
    setting = " (`compression.threshold`)" if engine.what == "compressor" else ""
    return (
        f"The window of {window.model} holds {window.tokens:,} tokens. `{engine.what}` compacts from "
        f"{engine.share:.0%} on{setting}, and session hygiene at {hygiene.share:.0%} whatever else happened."
    )
