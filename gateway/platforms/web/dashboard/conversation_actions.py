"""What can be done to a conversation: make it smaller now, or bring back what was there before."""

from __future__ import annotations

from aiohttp import web

from agent.store import Conversation
from gateway import on_behalf
from gateway.errors import CommandFailed
from gateway.messages import OWNER
from gateway.platforms.web.api import json_object
from gateway.platforms.web.dashboard.asked import line, said
from gateway.platforms.web.dashboard.frame import Frame
from gateway.platforms.web.dashboard.house import House
from gateway.platforms.web.dashboard.lineage import line_to

_LONGEST_TOPIC = 200
_LONGEST_ID = 100
_MOVED_ON = "The conversation has gone on in another session since this page was made; load it again."
_AT_WORK = (
    "Hermes is answering in this conversation. Wait until it has finished, or say /stop there, and try again."
)
_NO_ANCESTOR = (
    "This session is not an ancestor of the live one; `/sessions` and `/resume` in the chat lead there."
)
_IS_LIVE = "This session is live already."
_NO_TOPIC = "A topic does not begin with a dash."


def routes(house: House, frame: Frame) -> list[web.RouteDef]:
    async def compress(request: web.Request) -> web.Response:
        conversation = await house.gateway.store.conversation(request.match_info["id"])
        topic = line(await json_object(request), "topic", longest=_LONGEST_TOPIC)
        if topic.startswith("-"):
            raise web.HTTPBadRequest(text=_NO_TOPIC)
        if refusal := house.gateway.limits.refusal(OWNER):
            raise web.HTTPTooManyRequests(text=str(refusal), headers={"Retry-After": str(refusal.seconds)})
        return await _carried_out(house, conversation, f"/compress {topic}".strip())

    async def restore(request: web.Request) -> web.Response:
        conversation = await house.gateway.store.conversation(request.match_info["id"])
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


async def _carried_out(house: House, conversation: Conversation, text: str) -> web.Response:
    chat = await house.insight.conversations.chat_of(conversation)
    try:
        return said(await on_behalf.command(house.gateway, conversation, text, chat))
    except CommandFailed as error:
        raise web.HTTPConflict(text=str(error)) from error
