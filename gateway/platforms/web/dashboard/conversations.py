"""All conversations: newest first, or those in which something was said."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from markupsafe import Markup, escape

from agent.store import SearchHit
from gateway.platforms.web.dashboard import request_params as address
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.platforms.web.dashboard.transcript import discreet
from gateway.store.reports import ConversationRow

ADDRESS = "/dashboard/conversations"

_ON_A_PAGE = 50
_MOST_HITS = 50
_LONGEST_QUERY = 500
_LONGEST_CHOICE = 300
_SPEAKERS = {"user": "", "assistant": "Hermes", "tool": "A tool"}


@dataclass(frozen=True, slots=True)
class Found:
    """A message that a search has found."""

    listed: ConversationRow
    address: str
    who: str
    person: str
    at: float
    snippet: Markup


def routes(house: DashboardContext, frame: PageRenderer) -> list[web.RouteDef]:
    async def gather(request: web.Request) -> dict[str, Any]:
        query = address.text(request, "q", longest=_LONGEST_QUERY)
        platform = address.text(request, "platform", longest=_LONGEST_CHOICE)
        person = address.text(request, "person", longest=_LONGEST_CHOICE)
        page = address.number(request, "page", 1)
        choices = await house.insight.conversations.filter_options()
        wanted = {"person": person or None, "platform": platform or None}
        names = dict(choices.people)
        shown: dict[str, Any] = {
            "choices": choices,
            "names": names,
            "q": query,
            "platform": platform,
            "person": person,
            "found": None,
        }
        if query:
            return {**shown, "found": await _search(house, query, names, wanted), "most": _MOST_HITS}
        listing = await house.insight.conversations.page(
            first=(page - 1) * _ON_A_PAGE, limit=_ON_A_PAGE, **wanted
        )
        pages = max(1, math.ceil(listing.total / _ON_A_PAGE))
        if page > pages:
            raise web.HTTPNotFound(text=f"There is no page {page:,}; the last one is {pages:,}.")
        chosen = {name: value for name, value in wanted.items() if value}
        return {
            **shown,
            "listing": [discreetly(listed) for listed in listing.listed],
            "total": listing.total,
            "page": page,
            "pages": pages,
            "newer": _page_address(chosen, page - 1) if page > 1 else "",
            "older": _page_address(chosen, page + 1) if page < pages else "",
        }

    async def version(request: web.Request) -> object:
        """How long ago something was changes as well, once a minute."""
        return await house.insight.conversations.last_seq(), int(time.time() // 60)

    return frame.page(ADDRESS, "dashboard/conversations.html", gather, version)


async def _search(
    house: DashboardContext, query: str, names: dict[str, str], wanted: dict[str, str | None]
) -> list[Found]:
    conversations = house.insight.conversations
    hits = await conversations.search(query, limit=_MOST_HITS, **wanted)
    described = await conversations.rows([hit.conversation_id for hit in hits])
    return [_found(hit, discreetly(described[hit.conversation_id]), names) for hit in hits]


def _found(hit: SearchHit, listed: ConversationRow, names: dict[str, str]) -> Found:
    message = hit.message
    person = names.get(listed.conversation.person, listed.conversation.person)
    who = message.name if message.role == "user" and message.name else ""
    who = who or _SPEAKERS[message.role] or person
    address = f"{ADDRESS}/{hit.conversation_id}?message={message.id}#{message.id}"
    return Found(listed, address, who, person, message.created_at, marked(hit.snippet))


def discreetly(listed: ConversationRow) -> ConversationRow:
    """A title is the beginning of what somebody said."""
    return replace(listed, title=discreet(listed.title))


def marked(snippet: str) -> Markup:
    """What matched stands between two control characters, and nothing else in it means anything."""
    plain = snippet.replace("\x02", "").replace("\x03", "")
    if (harmless := discreet(plain)) != plain:
        return escape(harmless)
    pieces = snippet.replace("\x03", "\x02").split("\x02")
    return Markup("").join(
        Markup("<mark>{}</mark>").format(piece) if at % 2 else escape(piece)
        for at, piece in enumerate(pieces)
    )


def _page_address(chosen: dict[str, str], page: int) -> str:
    return f"{ADDRESS}?{urlencode({**chosen, 'page': page})}"
