"""The HTTP API: for the page, for the terminal client of a running gateway, and for scripts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from dataclasses import asdict
from typing import Any, TypeGuard, get_args
from urllib.parse import quote

from aiohttp import web

from agent.approval import Choice
from agent.errors import ToolError
from agent.events import event_to_dict
from agent.ids import id_from, new_id
from agent.messages import Message
from agent.store import Overview
from agent.tool_support.workspace import Workspace
from agent.untrusted import without_marks
from gateway.core.events import Envelope
from gateway.core.gateway import Gateway
from gateway.platforms.web.owner_conversations import PLATFORMS, OwnerConversations
from gateway.platforms.web.sse import EventStreams, frame
from gateway.platforms.web.tool_history import SentFile, sent_files
from gateway.types import OWNER, InboundMessage

_LONGEST_TEXT = 100_000
_LONGEST_KEY = 100
_LONGEST_CHAT_ID = 200
_MOST_MESSAGES = 10_000


class Api:
    """Handlers under `/api`."""

    def __init__(self, gateway: Gateway, desk: OwnerConversations, streams: EventStreams) -> None:
        self._gateway = gateway
        self._desk = desk
        self._streams = streams

    def routes(self) -> Iterable[web.RouteDef]:
        one = "/api/conversations/{id}"
        return [
            web.post("/api/conversations", self._open),
            web.get("/api/conversations", self._list),
            web.get(f"{one}/messages", self._messages),
            web.post(f"{one}/messages", self._send),
            web.get(f"{one}/events", self._events),
            web.post(f"{one}/stop", self._stop),
            web.post(f"{one}/approvals/{{approval_id}}", self._decide),
            web.get(f"{one}/files/{{file_id}}", self._file),
        ]

    async def _open(self, request: web.Request) -> web.Response:
        body = await json_object(request)
        platform, chat_id = body.get("platform"), body.get("chat_id")
        if platform not in PLATFORMS:
            raise web.HTTPBadRequest(text="`platform` must be `web` or `terminal`.")
        if chat_id is not None and not (is_text(chat_id) and 0 < len(chat_id) <= _LONGEST_CHAT_ID):
            raise web.HTTPBadRequest(text=f"`chat_id` must be text of 1 to {_LONGEST_CHAT_ID} characters.")
        conversation = await self._desk.open(platform, chat_id)
        after = self._gateway.hub.last_number(conversation.id)
        return web.json_response({"id": conversation.id, "after": after})

    async def _list(self, request: web.Request) -> web.Response:
        return web.json_response([_overview_as_dict(each) for each in await self._desk.overviews()])

    async def _messages(self, request: web.Request) -> web.Response:
        limit = whole_number(request, "limit", lowest=1, highest=_MOST_MESSAGES)
        conversation = await self._desk.conversation(request.match_info["id"])
        messages = await self._desk.transcript(conversation.id, limit)
        return web.json_response([_message_as_dict(message) for message in messages])

    async def _send(self, request: web.Request) -> web.Response:
        """Once this has answered, the message is kept. Whoever got no answer may send it again with the same `key`: it
        is taken once. `overtook` tells the page that it ran at once and will not begin a turn."""
        body = await json_object(request)
        text, key = _checked_text(body), _checked_key(body)
        conversation = await self._desk.conversation(request.match_info["id"])
        overtakes = self._gateway.commands.overtakes(text)
        if not overtakes and (refusal := self._gateway.limits.refusal(OWNER)):
            wait = {"Retry-After": str(refusal.seconds)}
            return web.json_response({"error": str(refusal)}, status=429, headers=wait)
        message_id = id_from("msg", conversation.id, key) if key else new_id("msg")
        inbound = InboundMessage(conversation.address, OWNER, text, id=message_id)
        await self._gateway.receive(inbound)
        return web.json_response({"message_id": inbound.id, "overtook": overtakes}, status=202)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        after = whole_number(request, "after") or 0
        if seen := request.headers.get("Last-Event-ID"):
            # Sent by a browser that connects again; newer than the `after` of its first address.
            after = int(seen) if _is_whole(seen) else after
        conversation = await self._desk.conversation(request.match_info["id"])
        with self._gateway.hub.watch(conversation.id, after=after) as envelopes:
            return await self._streams.send(request, _frames(envelopes))

    async def _stop(self, request: web.Request) -> web.Response:
        conversation = await self._desk.conversation(request.match_info["id"])
        return web.json_response({"stopped": self._gateway.stop_turn(conversation.id)})

    async def _decide(self, request: web.Request) -> web.Response:
        """Whether it counted is in the sentence; that it did, and for whom, in the events."""
        choice = (await json_object(request)).get("choice")
        if not isinstance(choice, str) or choice not in get_args(Choice):
            raise web.HTTPBadRequest(text="`choice` must be `once`, `conversation` or `deny`.")
        conversation = await self._desk.conversation(request.match_info["id"])
        said = self._gateway.approvals.decide(
            request.match_info["approval_id"], choice, person=OWNER, conversation_id=conversation.id
        )
        return web.json_response({"said": said})

    async def _file(self, request: web.Request) -> web.Response:
        """As it lies in the workspace now. Only to be saved: what a model made is never shown as a page."""
        conversation = await self._desk.conversation(request.match_info["id"])
        sent = await self._sent_file(conversation.id, request.match_info["file_id"])
        workspace = Workspace(self._gateway.workspace(conversation.id))
        try:
            data = await asyncio.to_thread(workspace.read, sent.path)
        except ToolError as error:
            raise web.HTTPNotFound(text=f"The file cannot be had any more: {error.detail}") from error
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(sent.name, safe='')}"}
        return web.Response(body=data, content_type="application/octet-stream", headers=headers)

    async def _sent_file(self, conversation_id: str, file_id: str) -> SentFile:
        for sent in sent_files(await self._desk.transcript(conversation_id, None)):
            if sent.id == file_id:
                return sent
        raise web.HTTPNotFound(text="No such file was sent in this conversation.")


def whole_number(
    request: web.Request, name: str, *, lowest: int = 0, highest: int | None = None
) -> int | None:
    """A number from the address, None where it is not given."""
    given = request.query.get(name)
    if given is None:
        return None
    if not _is_whole(given) or int(given) < lowest:
        raise web.HTTPBadRequest(text=f"`{name}` must be a whole number, {lowest} or more.")
    return int(given) if highest is None else min(int(given), highest)


def _is_whole(given: str) -> bool:
    return given.isascii() and given.isdigit() and len(given) <= 18


async def _frames(envelopes: AsyncIterator[Envelope]) -> AsyncGenerator[bytes, None]:
    async for envelope in envelopes:
        yield frame(event_to_dict(envelope.event), number=envelope.number)


async def json_object(request: web.Request) -> dict[str, Any]:
    try:
        # Not `request.json()`: JSON says itself how it is encoded, and the header may name any charset.
        body = json.loads(await request.read())
    except (ValueError, RecursionError):
        raise web.HTTPBadRequest(text="The body is not valid JSON.") from None
    if not isinstance(body, dict):
        raise web.HTTPBadRequest(text="The body must be a JSON object.")
    return body


def _checked_text(body: dict[str, Any]) -> str:
    text = body.get("text")
    if not isinstance(text, str):
        raise web.HTTPBadRequest(text="`text` must be there, and it must be text.")
    if not text.strip():
        raise web.HTTPBadRequest(text="The message is empty.")
    if not is_text(text):
        raise web.HTTPBadRequest(text="The message holds half a character, which cannot be stored.")
    size = len(text.encode())
    if size > _LONGEST_TEXT:
        raise web.HTTPRequestEntityTooLarge(_LONGEST_TEXT, size)
    return text


def _checked_key(body: dict[str, Any]) -> str:
    key = body.get("key", "")
    if not (is_text(key) and len(key) <= _LONGEST_KEY):
        raise web.HTTPBadRequest(text=f"`key` must be text of at most {_LONGEST_KEY} characters.")
    return str(key)


def is_text(value: object) -> TypeGuard[str]:
    """JSON can spell lone surrogates, which no encoding can store."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _overview_as_dict(overview: Overview) -> dict[str, Any]:
    return {
        "id": overview.conversation.id,
        "title": overview.title,
        "platform": overview.conversation.address.platform,
        "messages": overview.messages,
        "updated_at": overview.updated_at,
    }


def _message_as_dict(message: Message) -> dict[str, Any]:
    return {
        "id": message.id,
        "role": message.role,
        "content": without_marks(message.content),
        "tool_calls": [asdict(call) for call in message.tool_calls],
        "tool_call_id": message.tool_call_id,
        "name": message.name,
        "created_at": message.created_at,
    }
