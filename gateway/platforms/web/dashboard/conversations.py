"""The page that lists conversations, newest first, and searches messages."""

from __future__ import annotations

import math
import time
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from markupsafe import Markup, escape

from gateway.platforms.web import request_params as params
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.platforms.web.dashboard.transcript import redact_text

ADDRESS = "/dashboard/conversations"

_PAGE_SIZE = 50
_MAX_HITS = 50
_MAX_QUERY = 500
_MAX_CHOICE = 300


def routes(context: DashboardContext, page: PageRenderer) -> list[web.RouteDef]:
    conversations = context.reports.conversations

    async def gather(request: web.Request) -> dict[str, Any]:
        query = params.query_text(request, "q", max_length=_MAX_QUERY)
        platform = params.query_text(request, "platform", max_length=_MAX_CHOICE)
        person = params.query_text(request, "person", max_length=_MAX_CHOICE)
        number = params.positive_int(request, "page", 1)
        choices = await conversations.filter_options()
        wanted = {"person": person or None, "platform": platform or None}
        shown: dict[str, Any] = {
            "choices": choices,
            "names": dict(choices.people),
            "q": query,
            "platform": platform,
            "person": person,
            "found": None,
        }
        if query:
            hits = await conversations.search(query, limit=_MAX_HITS, **wanted)
            rows = await conversations.rows([hit.conversation_id for hit in hits])
            found = [(hit.message, rows[hit.conversation_id], render_snippet(hit.snippet)) for hit in hits]
            return {**shown, "found": found, "most": _MAX_HITS}
        listing = await conversations.page(first=(number - 1) * _PAGE_SIZE, limit=_PAGE_SIZE, **wanted)
        pages = max(1, math.ceil(listing.total / _PAGE_SIZE))
        if number > pages:
            raise web.HTTPNotFound(text=f"There is no page {number:,}; the last one is {pages:,}.")
        chosen = {name: value for name, value in wanted.items() if value}
        return {
            **shown,
            "listing": listing.rows,
            "total": listing.total,
            "page": number,
            "pages": pages,
            "newer": f"{ADDRESS}?{urlencode({**chosen, 'page': number - 1})}" if number > 1 else "",
            "older": f"{ADDRESS}?{urlencode({**chosen, 'page': number + 1})}" if number < pages else "",
        }

    async def version(request: web.Request) -> object:
        """Include the minute: the page shows how old each conversation is."""
        return await conversations.last_seq(), int(time.time() // 60)

    return page.live(ADDRESS, "dashboard/conversations.html", gather, version)


def render_snippet(snippet: str) -> Markup:
    """Render a snippet: the control characters \\x02 and \\x03 enclose each match."""
    plain = snippet.replace("\x02", "").replace("\x03", "")
    if (redacted := redact_text(plain)) != plain:
        return escape(redacted)
    pieces = snippet.replace("\x03", "\x02").split("\x02")
    return Markup("").join(
        Markup("<mark>{}</mark>").format(piece) if at % 2 else escape(piece)
        for at, piece in enumerate(pieces)
    )
