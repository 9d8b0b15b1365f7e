"""One conversation: what was said in it, on whatever platform and by whomever."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from agent.errors import NotFound
from agent.store import Conversation
from gateway.core import admin_commands as on_behalf
from gateway.errors import CommandFailed
from gateway.platforms.web.api import json_object
from gateway.platforms.web.dashboard import request_params as address
from gateway.platforms.web.dashboard.conversations import ADDRESS, discreetly
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.platforms.web.dashboard.request_params import line, said
from gateway.platforms.web.dashboard.session_graph import line_to
from gateway.platforms.web.dashboard.transcript import Reader
from gateway.platforms.web.renderer import HtmlRenderer
from gateway.store.reports import TranscriptPage
from gateway.types import OWNER

_SHOWN = 100
_BEFORE_THE_ONE = 20
"""Messages shown before the one that a link leads to."""
_LONGEST_ID = 100


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of the conversation is to be seen."""

    session_id: str
    """As things were at the end of this session."""
    first: int | None
    message_id: str


def routes(house: DashboardContext, frame: PageRenderer) -> list[web.RouteDef]:
    reader = Reader(HtmlRenderer(house.model))

    async def gather(request: web.Request) -> dict[str, Any]:
        about = await facts(house, request)
        conversation = about["conversation"]
        wanted = await _wanted(house, request, conversation)
        excerpt = await house.insight.conversations.transcript_page(
            wanted.session_id, first=wanted.first, limit=_SHOWN
        )
        if wanted.first is not None and wanted.first > max(1, excerpt.total):
            raise web.HTTPNotFound(text=f"There are only {excerpt.total:,} messages here.")
        sessions = await house.insight.conversations.sessions(conversation.id)
        is_newest = excerpt.first + _SHOWN > excerpt.total
        last = wanted.session_id if is_newest else ""
        shown = await asyncio.to_thread(
            reader.with_borders, excerpt.messages, about["person"], sessions, last
        )
        numbers = {session.id: at for at, session in enumerate(sessions, start=1)}
        return {
            **about,
            "shown": shown,
            "numbers": numbers,
            "excerpt": excerpt,
            "last": min(excerpt.first + _SHOWN - 1, excerpt.total),
            "seen_from": wanted.session_id if wanted.session_id != conversation.live_session_id else "",
            "wanted_message": wanted.message_id,
            **_pages(conversation, wanted, excerpt),
        }

    async def version(request: web.Request) -> object:
        return await version_of(house, request)

    return frame.page(f"{ADDRESS}/{{id}}", "dashboard/conversation.html", gather, version)


async def facts(house: DashboardContext, request: web.Request) -> dict[str, Any]:
    """What every page about a conversation begins with."""
    conversation = await house.gateway.store.sessions.conversation(request.match_info["id"])
    described = await house.insight.conversations.rows([conversation.id])
    names = dict((await house.insight.conversations.filter_options()).people)
    running = house.gateway.hub.running(conversation.id)
    return {
        "conversation": conversation,
        "listed": discreetly(described[conversation.id]),
        "person": "The owner" if conversation.person == OWNER else names[conversation.person],
        "address": f"{ADDRESS}/{conversation.id}",
        "at_work": house.gateway.works_on(conversation.id),
        "running": running,
        "waiting": len(house.gateway.queued(conversation.id)),
    }


async def version_of(house: DashboardContext, request: web.Request) -> object:
    conversation_id = request.match_info["id"]
    version = await house.insight.conversations.version(conversation_id)
    gateway = house.gateway
    running = gateway.hub.running(conversation_id)
    return version, running, gateway.works_on(conversation_id), len(gateway.queued(conversation_id))


async def _wanted(house: DashboardContext, request: web.Request, conversation: Conversation) -> Wanted:
    message_id = address.text(request, "message", longest=_LONGEST_ID)
    if message_id:
        place = await house.insight.conversations.locate_message(conversation.id, message_id)
        return Wanted(place[0], max(1, place[1] - _BEFORE_THE_ONE), message_id)
    session_id = address.text(request, "session", longest=_LONGEST_ID) or conversation.live_session_id
    if (await house.gateway.store.sessions.session(session_id)).conversation_id != conversation.id:
        raise NotFound
    first = address.number(request, "from", 0)
    return Wanted(session_id, first or None, "")


def _pages(conversation: Conversation, wanted: Wanted, excerpt: TranscriptPage) -> dict[str, str]:
    address = f"{ADDRESS}/{conversation.id}"
    seen_from = {} if wanted.session_id == conversation.live_session_id else {"session": wanted.session_id}

    def at(first: int) -> str:
        return f"{address}?{urlencode({**seen_from, 'from': first})}"

    earlier = at(max(1, excerpt.first - _SHOWN)) if excerpt.first > 1 else ""
    follows = excerpt.first + _SHOWN
    return {"earlier": earlier, "later": at(follows) if follows <= excerpt.total else ""}


_LONGEST_TOPIC = 200
_MOVED_ON = "The conversation has gone on in another session since this page was made; load it again."
_AT_WORK = (
    "Hermes is answering in this conversation. Wait until it has finished, or say /stop there, and try again."
)
_NO_ANCESTOR = (
    "This session is not an ancestor of the live one; `/sessions` and `/resume` in the chat lead there."
)
_IS_LIVE = "This session is live already."
_NO_TOPIC = "A topic does not begin with a dash."


def action_routes(house: DashboardContext, frame: PageRenderer) -> list[web.RouteDef]:
    async def compress(request: web.Request) -> web.Response:
        conversation = await house.gateway.store.sessions.conversation(request.match_info["id"])
        topic = line(await json_object(request), "topic", longest=_LONGEST_TOPIC)
        if topic.startswith("-"):
            raise web.HTTPBadRequest(text=_NO_TOPIC)
        if refusal := house.gateway.limits.refusal(OWNER):
            raise web.HTTPTooManyRequests(text=str(refusal), headers={"Retry-After": str(refusal.seconds)})
        return await _carried_out(house, conversation, f"/compress {topic}".strip())

    async def restore(request: web.Request) -> web.Response:
        conversation = await house.gateway.store.sessions.conversation(request.match_info["id"])
        body = await json_object(request)
        session_id = line(body, "session", longest=_LONGEST_ID)
        seen_live = line(body, "instead_of", longest=_LONGEST_ID)
        sessions = await house.insight.conversations.sessions(conversation.id)
        if session_id == conversation.live_session_id:
            raise web.HTTPConflict(text=_IS_LIVE)
        if seen_live != conversation.live_session_id:
            raise web.HTTPConflict(text=_MOVED_ON)
        if session_id not in {session.id for session in sessions}:
            raise web.HTTPNotFound(text="This conversation has no such session.")
        if session_id not in line_to(sessions, conversation.live_session_id):
            raise web.HTTPConflict(text=_NO_ANCESTOR)
        if house.gateway.works_on(conversation.id):
            raise web.HTTPConflict(text=_AT_WORK)
        return await _carried_out(house, conversation, f"/undo-compress {session_id}")

    one = "/api/dashboard/conversations/{id}"
    return [web.post(f"{one}/compress", compress), web.post(f"{one}/restore", restore)]


async def _carried_out(house: DashboardContext, conversation: Conversation, text: str) -> web.Response:
    chat = await house.insight.conversations.reply_place(conversation)
    try:
        return said(await on_behalf.command(house.gateway, conversation, text, chat))
    except CommandFailed as error:
        raise web.HTTPConflict(text=str(error)) from error
