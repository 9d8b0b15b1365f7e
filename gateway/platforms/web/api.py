"""The HTTP API for the chat page, for `hermes chat` beside a running gateway, and for scripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from dataclasses import asdict
from typing import Any, get_args
from urllib.parse import quote

from aiohttp import web

from agent.errors import ToolError
from agent.events import event_to_dict
from agent.ids import id_from, new_id
from agent.messages import Message
from agent.tool import Choice
from agent.tool_support.workspace import Workspace
from agent.untrusted import without_marks
from gateway.core.events import Envelope
from gateway.core.gateway import Gateway
from gateway.platforms.web.owner_conversations import PLATFORMS, OwnerConversations
from gateway.platforms.web.renderer import sent_files
from gateway.platforms.web.request_params import is_integer, is_text, json_object, optional_int, optional_text
from gateway.platforms.web.sse import EventStreams, frame
from gateway.types import OWNER, InboundMessage, parse_command

_MAX_TEXT_BYTES = 100_000
_MAX_KEY = 100
_MAX_CHAT_ID = 200
_MAX_MESSAGES = 10_000


class Api:
    """Handlers under `/api`."""

    def __init__(self, gateway: Gateway, conversations: OwnerConversations, streams: EventStreams) -> None:
        self._gateway = gateway
        self._conversations = conversations
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
        if chat_id is not None and not (is_text(chat_id) and 0 < len(chat_id) <= _MAX_CHAT_ID):
            raise web.HTTPBadRequest(text=f"`chat_id` must be a string of 1 to {_MAX_CHAT_ID} characters.")
        conversation = await self._conversations.open(platform, chat_id)
        after = self._gateway.hub.last_number(conversation.id)
        return web.json_response({"id": conversation.id, "after": after})

    async def _list(self, request: web.Request) -> web.Response:
        return web.json_response(
            [
                {
                    "id": overview.conversation.id,
                    "title": overview.title,
                    "platform": overview.conversation.address.platform,
                    "messages": overview.messages,
                    "updated_at": overview.updated_at,
                }
                for overview in await self._conversations.overviews()
            ]
        )

    async def _messages(self, request: web.Request) -> web.Response:
        limit = optional_int(request, "limit", minimum=1, maximum=_MAX_MESSAGES)
        conversation = await self._conversations.conversation(request.match_info["id"])
        messages = await self._conversations.transcript(conversation.id, limit)
        return web.json_response([_message_as_dict(message) for message in messages])

    async def _send(self, request: web.Request) -> web.Response:
        """Accept a message. The message is stored before the response is sent; a client without a response may send it
        again with the same `key`, and it counts once. `overtook`: a command ran at once and starts no turn."""
        body = await json_object(request)
        text, key = _checked_text(body), optional_text(body, "key", max_length=_MAX_KEY)
        conversation = await self._conversations.conversation(request.match_info["id"])
        command = parse_command(text)
        overtakes = self._gateway.commands.overtakes(command)
        if not overtakes and (refusal := self._gateway.limits.refusal(OWNER)):
            wait = {"Retry-After": str(refusal.seconds)}
            return web.json_response({"error": str(refusal)}, status=429, headers=wait)
        message_id = id_from("msg", conversation.id, key) if key else new_id("msg")
        inbound = InboundMessage(conversation.address, OWNER, text, message_id, command)
        await self._gateway.receive(inbound)
        return web.json_response({"message_id": inbound.id, "overtook": overtakes}, status=202)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        after = optional_int(request, "after") or 0
        if seen := request.headers.get("Last-Event-ID"):
            # A reconnecting browser sends it; it is newer than the `after` of the URL.
            after = int(seen) if is_integer(seen) else after
        conversation = await self._conversations.conversation(request.match_info["id"])
        with self._gateway.hub.watch(conversation.id, after=after) as envelopes:
            return await self._streams.send(request, _frames(envelopes))

    async def _stop(self, request: web.Request) -> web.Response:
        conversation = await self._conversations.conversation(request.match_info["id"])
        return web.json_response({"stopped": self._gateway.stop_turn(conversation.id)})

    async def _decide(self, request: web.Request) -> web.Response:
        """Decide about a tool call. The response has a sentence for the person; events tell every watcher."""
        choice = (await json_object(request)).get("choice")
        if not isinstance(choice, str) or choice not in get_args(Choice):
            raise web.HTTPBadRequest(text="`choice` must be `once`, `conversation` or `deny`.")
        conversation = await self._conversations.conversation(request.match_info["id"])
        said = self._gateway.approvals.decide(
            request.match_info["approval_id"], choice, person=OWNER, conversation_id=conversation.id
        )
        return web.json_response({"said": said})

    async def _file(self, request: web.Request) -> web.Response:
        """Send a file of the workspace as a download: a file that a model made must not open as a page."""
        conversation = await self._conversations.conversation(request.match_info["id"])
        transcript = await self._conversations.transcript(conversation.id, None)
        file_id = request.match_info["file_id"]
        sent = next((each for each in sent_files(transcript) if each.id == file_id), None)
        if sent is None:
            raise web.HTTPNotFound(text="This conversation has no such file.")
        workspace = Workspace(self._gateway.workspace(conversation.id))
        try:
            data = await asyncio.to_thread(workspace.read, sent.path)
        except ToolError as error:
            raise web.HTTPNotFound(text=f"The file is no longer available: {error.detail}") from error
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(sent.name, safe='')}"}
        return web.Response(body=data, content_type="application/octet-stream", headers=headers)


async def _frames(envelopes: AsyncIterator[Envelope]) -> AsyncGenerator[bytes, None]:
    async for envelope in envelopes:
        yield frame(event_to_dict(envelope.event), number=envelope.number)


def _checked_text(body: dict[str, Any]) -> str:
    text = body.get("text")
    if not isinstance(text, str):
        raise web.HTTPBadRequest(text="`text` is required and must be a string.")
    if not text.strip():
        raise web.HTTPBadRequest(text="The message is empty.")
    if not is_text(text):
        raise web.HTTPBadRequest(
            text="The message contains half a character (a lone surrogate), which cannot be stored."
        )
    size = len(text.encode())
    if size > _MAX_TEXT_BYTES:
        raise web.HTTPRequestEntityTooLarge(_MAX_TEXT_BYTES, size)
    return text


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
