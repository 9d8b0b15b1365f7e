"""The pages of one conversation and of each of its compactions, and the buttons Compress and Restore."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from agent.compression.ledger import BEGIN
from agent.compression.summary_message import block_of, text_of_engine
from agent.errors import NotFound
from agent.messages import Message
from agent.store import Conversation
from agent.tokens import MESSAGE_TOKENS, estimate_text_tokens
from gateway.errors import CommandFailed
from gateway.platforms.web import request_params as params
from gateway.platforms.web.dashboard.conversations import ADDRESS
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.platforms.web.dashboard.session_graph import path_to
from gateway.platforms.web.dashboard.transcript import TranscriptMessage, TranscriptRenderer, redact_text
from gateway.platforms.web.markdown import render_markdown_cached
from gateway.platforms.web.request_params import json_object, optional_text, result_response
from gateway.store.reports import CompactionDiff, TranscriptPage
from gateway.types import OWNER, CommandCall

_PAGE_SIZE = 100
_DIFF_PAGE_SIZE = 50
_LINK_CONTEXT = 20
"""Messages shown before the one that a link points to."""
_MAX_ID = 100
_MAX_TOPIC = 200
_CHARACTERS_PER_TOKEN = 4

_OUTDATED = "The conversation has moved to another session since this page was loaded. Reload the page."
_BUSY = "Hermes is answering in this conversation. Wait until it has finished, or send /stop there, and try again."
_NOT_ANCESTOR = (
    "This session is not an ancestor of the live one. Use `/sessions` and `/resume` in the chat instead."
)


def routes(context: DashboardContext, page: PageRenderer) -> list[web.RouteDef]:
    return [
        *_transcript_routes(context, page),
        *_compaction_routes(context, page),
        *_action_routes(context),
    ]


def _transcript_routes(context: DashboardContext, page: PageRenderer) -> list[web.RouteDef]:
    conversations = context.reports.conversations

    async def gather(request: web.Request) -> dict[str, Any]:
        about = await conversation_facts(context, request)
        conversation = about["conversation"]
        session_id, first, message_id = await _selection(context, request, conversation)
        excerpt = await conversations.transcript_page(session_id, first=first, limit=_PAGE_SIZE)
        if first is not None and first > max(1, excerpt.total):
            raise web.HTTPNotFound(text=f"This conversation has only {excerpt.total:,} messages.")
        sessions = await conversations.sessions(conversation.id)
        is_newest = excerpt.first + _PAGE_SIZE > excerpt.total
        last = session_id if is_newest else ""
        entries = await asyncio.to_thread(
            page.transcripts.with_boundaries, excerpt.messages, about["person"], sessions, last
        )
        is_live = session_id == conversation.live_session_id
        return {
            **about,
            "entries": entries,
            "numbers": {session.id: at for at, session in enumerate(sessions, start=1)},
            "excerpt": excerpt,
            "last": min(excerpt.first + _PAGE_SIZE - 1, excerpt.total),
            "viewed_session": "" if is_live else session_id,
            "linked_message": message_id,
            **_page_links(about["address"], excerpt, _PAGE_SIZE, {} if is_live else {"session": session_id}),
        }

    version = partial(conversation_version, context)
    return page.live(f"{ADDRESS}/{{id}}", "dashboard/conversation.html", gather, version)


def _compaction_routes(context: DashboardContext, page: PageRenderer) -> list[web.RouteDef]:
    conversations = context.reports.conversations

    async def show(request: web.Request) -> web.Response:
        about = await conversation_facts(context, request)
        conversation = about["conversation"]
        sessions = await conversations.sessions(conversation.id)
        numbers = {session.id: number for number, session in enumerate(sessions, start=1)}
        known = {session.id: session for session in sessions}
        child = known.get(request.match_info["session_id"])
        if child is None or child.parent_id is None:
            raise NotFound
        first = params.positive_int(request, "from", 1)
        diff = await conversations.compaction_diff(child.id, first=first, limit=_DIFF_PAGE_SIZE)
        if first > max(1, diff.left.total):
            raise web.HTTPNotFound(text=f"This compaction replaced only {diff.left.total:,} messages.")
        ancestors = path_to(sessions, conversation.live_session_id)[:-1]
        variables = {
            **about,
            **await asyncio.to_thread(_render_diff, page.transcripts, diff, about["person"]),
            **_page_links(f"{about['address']}/splits/{child.id}", diff.left, _DIFF_PAGE_SIZE),
            "session": child,
            "number": numbers[child.id],
            "parent": known[child.parent_id],
            "parent_number": numbers[child.parent_id],
            "can_restore": child.parent_id in ancestors,
        }
        return page.render(request, "dashboard/conversation_compaction.html", variables)

    return [web.get(f"{ADDRESS}/{{id}}/splits/{{session_id}}", show)]


def _action_routes(context: DashboardContext) -> list[web.RouteDef]:
    async def compress(request: web.Request) -> web.Response:
        conversation = await context.gateway.store.sessions.conversation(request.match_info["id"])
        topic = " ".join(optional_text(await json_object(request), "topic", max_length=_MAX_TOPIC).split())
        if topic.startswith("-"):
            raise web.HTTPBadRequest(text="A topic must not begin with a dash.")
        if refusal := context.gateway.limits.refusal(OWNER):
            raise web.HTTPTooManyRequests(text=str(refusal), headers={"Retry-After": str(refusal.seconds)})
        return await _run_command(context, conversation, CommandCall("compress", topic))

    async def restore(request: web.Request) -> web.Response:
        conversation = await context.gateway.store.sessions.conversation(request.match_info["id"])
        body = await json_object(request)
        session_id = optional_text(body, "session", max_length=_MAX_ID)
        seen_live = optional_text(body, "instead_of", max_length=_MAX_ID)
        sessions = await context.reports.conversations.sessions(conversation.id)
        if session_id == conversation.live_session_id:
            raise web.HTTPConflict(text="This session is already live.")
        if seen_live != conversation.live_session_id:
            raise web.HTTPConflict(text=_OUTDATED)
        if session_id not in {session.id for session in sessions}:
            raise web.HTTPNotFound(text="This conversation has no such session.")
        if session_id not in path_to(sessions, conversation.live_session_id):
            raise web.HTTPConflict(text=_NOT_ANCESTOR)
        if context.gateway.is_busy(conversation.id):
            raise web.HTTPConflict(text=_BUSY)
        return await _run_command(context, conversation, CommandCall("undo-compress", session_id))

    api = "/api/dashboard/conversations/{id}"
    return [web.post(f"{api}/compress", compress), web.post(f"{api}/restore", restore)]


async def conversation_facts(context: DashboardContext, request: web.Request) -> dict[str, Any]:
    """Collect the variables that all pages about a conversation share."""
    conversation = await context.gateway.store.sessions.conversation(request.match_info["id"])
    described = await context.reports.conversations.rows([conversation.id])
    names = dict((await context.reports.conversations.filter_options()).people)
    return {
        "conversation": conversation,
        "row": described[conversation.id],
        "person": "The owner" if conversation.person == OWNER else names[conversation.person],
        "address": f"{ADDRESS}/{conversation.id}",
        "running": context.gateway.hub.running(conversation.id),
        "waiting": len(context.gateway.queued(conversation.id)),
    }


async def conversation_version(context: DashboardContext, request: web.Request) -> object:
    conversation_id = request.match_info["id"]
    version = await context.reports.conversations.version(conversation_id)
    gateway = context.gateway
    return version, gateway.hub.running(conversation_id), len(gateway.queued(conversation_id))


async def _selection(
    context: DashboardContext, request: web.Request, conversation: Conversation
) -> tuple[str, int | None, str]:
    """Return the session that the transcript ends with, the position of its first message, and a linked message."""
    message_id = params.query_text(request, "message", max_length=_MAX_ID)
    if message_id:
        place = await context.reports.conversations.locate_message(conversation.id, message_id)
        return place[0], max(1, place[1] - _LINK_CONTEXT), message_id
    session_id = params.query_text(request, "session", max_length=_MAX_ID) or conversation.live_session_id
    if (await context.gateway.store.sessions.session(session_id)).conversation_id != conversation.id:
        raise NotFound
    return session_id, params.positive_int(request, "from", 0) or None, ""


def _page_links(
    address: str, shown: TranscriptPage, size: int, query: dict[str, str] | None = None
) -> dict[str, str]:
    def link(first: int) -> str:
        return f"{address}?{urlencode({**(query or {}), 'from': first})}"

    following = shown.first + size
    return {
        "earlier": link(max(1, shown.first - size)) if shown.first > 1 else "",
        "later": link(following) if following <= shown.total else "",
    }


async def _run_command(
    context: DashboardContext, conversation: Conversation, command: CommandCall
) -> web.Response:
    chat = await context.reports.conversations.reply_place(conversation)
    try:
        answer = await context.gateway.run_command(conversation, command, actor=OWNER, reply_to=chat)
        return result_response(answer)
    except CommandFailed as error:
        raise web.HTTPConflict(text=str(error)) from error


@dataclass(frozen=True, slots=True)
class Summary:
    """The text that an engine wrote to replace messages."""

    html: str
    ledger: str
    """Facts and rules that the summary keeps verbatim."""
    carried: str
    """State of the conversation that the host appends to the summary."""
    tokens: int


def _render_diff(transcripts: TranscriptRenderer, diff: CompactionDiff, person: str) -> dict[str, Any]:
    summaries = [message for message in diff.written if message.kind == "summary"]
    left = diff.left
    return {
        "summaries": [_summary(message) for message in summaries],
        "shortened": len(diff.written) - len(summaries),
        "pairs": _pairs(transcripts, diff, person),
        "kept": diff.kept,
        "replaced": transcripts.messages(left.messages, person),
        "replaced_count": left.total,
        "replaced_tokens": diff.left_characters // _CHARACTERS_PER_TOKEN + MESSAGE_TOKENS * left.total,
        "first": left.first,
        "last": left.first + len(left.messages) - 1,
    }


def _pairs(
    transcripts: TranscriptRenderer, diff: CompactionDiff, person: str
) -> list[tuple[TranscriptMessage, TranscriptMessage]]:
    """Return each shortened message with its original."""
    originals = {message.id: message for message in diff.originals}
    pairs = [(each, originals[each.source_id]) for each in diff.written if each.source_id in originals]

    def alone(message: Message) -> TranscriptMessage:
        """Render one message by itself; together, a result would be drawn into its call."""
        return transcripts.messages([message], person)[0]

    return [(alone(short), alone(whole)) for short, whole in pairs[:_DIFF_PAGE_SIZE]]


def _summary(message: Message) -> Summary:
    body = redact_text(text_of_engine(message))
    text, mark, ledger = body.rpartition(f"\n{BEGIN}\n")
    return Summary(
        render_markdown_cached((text if mark else ledger).strip()),
        f"{mark}{ledger}".strip() if mark else "",
        redact_text(block_of(message)).strip(),
        estimate_text_tokens(message.content),
    )
