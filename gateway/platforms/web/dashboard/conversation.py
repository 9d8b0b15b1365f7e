"""The page of one conversation: its transcript, and the buttons Compress and Restore."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from agent.errors import NotFound
from agent.store import Conversation
from gateway.errors import CommandFailed
from gateway.platforms.web import request_params as params
from gateway.platforms.web.dashboard.conversations import ADDRESS, redact_title
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.platforms.web.dashboard.session_graph import path_to
from gateway.platforms.web.dashboard.transcript import TranscriptRenderer
from gateway.platforms.web.renderer import HtmlRenderer
from gateway.platforms.web.request_params import json_object, optional_line, result_response
from gateway.store.reports import TranscriptPage
from gateway.types import OWNER, CommandCall

_PAGE_SIZE = 100
_LINK_CONTEXT = 20
"""Messages shown before the one that a link points to."""
_MAX_ID = 100


@dataclass(frozen=True, slots=True)
class TranscriptSelection:
    """The part of the transcript that a request asks for."""

    session_id: str
    """The transcript ends with this session."""
    first: int | None
    message_id: str


def routes(context: DashboardContext, page: PageRenderer) -> list[web.RouteDef]:
    transcripts = TranscriptRenderer(HtmlRenderer(context.model))

    async def gather(request: web.Request) -> dict[str, Any]:
        about = await conversation_facts(context, request)
        conversation = about["conversation"]
        wanted = await _wanted(context, request, conversation)
        excerpt = await context.reports.conversations.transcript_page(
            wanted.session_id, first=wanted.first, limit=_PAGE_SIZE
        )
        if wanted.first is not None and wanted.first > max(1, excerpt.total):
            raise web.HTTPNotFound(text=f"This conversation has only {excerpt.total:,} messages.")
        sessions = await context.reports.conversations.sessions(conversation.id)
        is_newest = excerpt.first + _PAGE_SIZE > excerpt.total
        last = wanted.session_id if is_newest else ""
        shown = await asyncio.to_thread(
            transcripts.with_boundaries, excerpt.messages, about["person"], sessions, last
        )
        numbers = {session.id: at for at, session in enumerate(sessions, start=1)}
        return {
            **about,
            "shown": shown,
            "numbers": numbers,
            "excerpt": excerpt,
            "last": min(excerpt.first + _PAGE_SIZE - 1, excerpt.total),
            "seen_from": wanted.session_id if wanted.session_id != conversation.live_session_id else "",
            "wanted_message": wanted.message_id,
            **_pages(conversation, wanted, excerpt),
        }

    async def version(request: web.Request) -> object:
        return await conversation_version(context, request)

    return page.live(f"{ADDRESS}/{{id}}", "dashboard/conversation.html", gather, version)


async def conversation_facts(context: DashboardContext, request: web.Request) -> dict[str, Any]:
    """Collect the variables that all pages about a conversation share."""
    conversation = await context.gateway.store.sessions.conversation(request.match_info["id"])
    described = await context.reports.conversations.rows([conversation.id])
    names = dict((await context.reports.conversations.filter_options()).people)
    running = context.gateway.hub.running(conversation.id)
    return {
        "conversation": conversation,
        "listed": redact_title(described[conversation.id]),
        "person": "The owner" if conversation.person == OWNER else names[conversation.person],
        "address": f"{ADDRESS}/{conversation.id}",
        "at_work": context.gateway.is_busy(conversation.id),
        "running": running,
        "waiting": len(context.gateway.queued(conversation.id)),
    }


async def conversation_version(context: DashboardContext, request: web.Request) -> object:
    conversation_id = request.match_info["id"]
    version = await context.reports.conversations.version(conversation_id)
    gateway = context.gateway
    running = gateway.hub.running(conversation_id)
    return version, running, gateway.is_busy(conversation_id), len(gateway.queued(conversation_id))


async def _wanted(
    context: DashboardContext, request: web.Request, conversation: Conversation
) -> TranscriptSelection:
    message_id = params.query_text(request, "message", max_length=_MAX_ID)
    if message_id:
        place = await context.reports.conversations.locate_message(conversation.id, message_id)
        return TranscriptSelection(place[0], max(1, place[1] - _LINK_CONTEXT), message_id)
    session_id = params.query_text(request, "session", max_length=_MAX_ID) or conversation.live_session_id
    if (await context.gateway.store.sessions.session(session_id)).conversation_id != conversation.id:
        raise NotFound
    first = params.positive_int(request, "from", 0)
    return TranscriptSelection(session_id, first or None, "")


def _pages(
    conversation: Conversation, wanted: TranscriptSelection, excerpt: TranscriptPage
) -> dict[str, str]:
    address = f"{ADDRESS}/{conversation.id}"
    seen_from = {} if wanted.session_id == conversation.live_session_id else {"session": wanted.session_id}

    def at(first: int) -> str:
        return f"{address}?{urlencode({**seen_from, 'from': first})}"

    earlier = at(max(1, excerpt.first - _PAGE_SIZE)) if excerpt.first > 1 else ""
    following = excerpt.first + _PAGE_SIZE
    return {"earlier": earlier, "later": at(following) if following <= excerpt.total else ""}


_MAX_TOPIC = 200
_OUTDATED = "The conversation has moved to another session since this page was loaded. Reload the page."
_BUSY = "Hermes is answering in this conversation. Wait until it has finished, or send /stop there, and try again."
_NOT_ANCESTOR = (
    "This session is not an ancestor of the live one. Use `/sessions` and `/resume` in the chat instead."
)
_ALREADY_LIVE = "This session is already live."
_BAD_TOPIC = "A topic must not begin with a dash."


def action_routes(context: DashboardContext, page: PageRenderer) -> list[web.RouteDef]:
    async def compress(request: web.Request) -> web.Response:
        conversation = await context.gateway.store.sessions.conversation(request.match_info["id"])
        topic = optional_line(await json_object(request), "topic", max_length=_MAX_TOPIC)
        if topic.startswith("-"):
            raise web.HTTPBadRequest(text=_BAD_TOPIC)
        if refusal := context.gateway.limits.refusal(OWNER):
            raise web.HTTPTooManyRequests(text=str(refusal), headers={"Retry-After": str(refusal.seconds)})
        return await _run_command(context, conversation, CommandCall("compress", topic))

    async def restore(request: web.Request) -> web.Response:
        conversation = await context.gateway.store.sessions.conversation(request.match_info["id"])
        body = await json_object(request)
        session_id = optional_line(body, "session", max_length=_MAX_ID)
        seen_live = optional_line(body, "instead_of", max_length=_MAX_ID)
        sessions = await context.reports.conversations.sessions(conversation.id)
        if session_id == conversation.live_session_id:
            raise web.HTTPConflict(text=_ALREADY_LIVE)
        if seen_live != conversation.live_session_id:
            raise web.HTTPConflict(text=_OUTDATED)
        if session_id not in {session.id for session in sessions}:
            raise web.HTTPNotFound(text="This conversation has no such session.")
        if session_id not in path_to(sessions, conversation.live_session_id):
            raise web.HTTPConflict(text=_NOT_ANCESTOR)
        if context.gateway.is_busy(conversation.id):
            raise web.HTTPConflict(text=_BUSY)
        return await _run_command(context, conversation, CommandCall("undo-compress", session_id))

    one = "/api/dashboard/conversations/{id}"
    return [web.post(f"{one}/compress", compress), web.post(f"{one}/restore", restore)]


async def _run_command(
    context: DashboardContext, conversation: Conversation, command: CommandCall
) -> web.Response:
    chat = await context.reports.conversations.reply_place(conversation)
    try:
        answer = await context.gateway.run_command(conversation, command, actor=OWNER, reply_to=chat)
        return result_response(answer)
    except CommandFailed as error:
        raise web.HTTPConflict(text=str(error)) from error
