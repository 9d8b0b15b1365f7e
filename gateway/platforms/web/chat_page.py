"""The chat page, and the event stream that keeps an open page up to date."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import Any

from aiohttp import web
from markupsafe import Markup

from agent.events import (
    ApprovalAsked,
    ApprovalSettled,
    Compacted,
    FileSent,
    Notice,
    Queued,
    Steered,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnEvent,
    TurnFailed,
    TurnStarted,
    UsageReported,
)
from agent.llm import Usage
from agent.messages import ToolCall
from agent.store import Conversation
from gateway.core.events import Envelope
from gateway.core.gateway import Gateway
from gateway.platforms.web.markdown import render_markdown
from gateway.platforms.web.owner_conversations import OwnerConversations
from gateway.platforms.web.renderer import HtmlRenderer, SentFile, ToolState, ToolView, title_of
from gateway.platforms.web.request_params import optional_int
from gateway.platforms.web.sse import EventStreams, frame

_SHOWN_MESSAGES = 200
_MAX_SHOWN = 10_000


Update = dict[str, Any]


class ChatPage:
    """Handlers of the chat page."""

    def __init__(
        self,
        gateway: Gateway,
        conversations: OwnerConversations,
        streams: EventStreams,
        renderer: HtmlRenderer,
    ) -> None:
        self._gateway = gateway
        self._conversations = conversations
        self._streams = streams
        self._renderer = renderer

    def routes(self) -> Iterable[web.RouteDef]:
        return [
            web.get("/", self._home),
            web.get("/new", self._new),
            web.get("/c/{id}", self._conversation),
            web.get("/c/{id}/live", self._live),
        ]

    async def _home(self, request: web.Request) -> web.Response:
        """Redirect to the latest conversation on the web."""
        for overview in await self._conversations.overviews():
            if overview.conversation.address.platform == "web":
                return web.Response(status=303, headers={"Location": f"/c/{overview.conversation.id}"})
        return web.Response(status=303, headers={"Location": "/new"})

    async def _new(self, request: web.Request) -> web.Response:
        overviews = await self._conversations.overviews()
        html = self._renderer.chat(None, overviews, Markup(), limit=_SHOWN_MESSAGES, earlier=False)
        return web.Response(text=html, content_type="text/html")

    async def _conversation(self, request: web.Request) -> web.Response:
        limit = _limit(request)
        conversation = await self._conversations.conversation(request.match_info["id"])
        transcript, earlier = await self._transcript(conversation, limit)
        overviews = await self._conversations.overviews()
        html = self._renderer.chat(conversation, overviews, transcript, limit=limit, earlier=earlier)
        return web.Response(text=html, content_type="text/html")

    async def _live(self, request: web.Request) -> web.StreamResponse:
        """Stream the stored transcript, then the whole last turn, then new events.

        The stream subscribes before it reads the store, so no event is lost between the two; the page redraws a turn
        that is in both. A reconnect, even to a restarted gateway, works like a first visit.
        """
        limit = _limit(request)
        conversation = await self._conversations.conversation(request.match_info["id"])
        with self._gateway.hub.watch(conversation.id, after=-1) as envelopes:
            return await self._streams.send(request, self._frames(conversation, envelopes, limit))

    async def _frames(
        self, conversation: Conversation, envelopes: AsyncIterator[Envelope], limit: int
    ) -> AsyncGenerator[bytes, None]:
        transcript, _ = await self._transcript(conversation, limit)
        yield frame({"op": "snapshot", "html": transcript})
        for queued in self._gateway.queued(conversation.id):
            yield frame({"op": "queued", "id": queued.message_id, "html": self._renderer.queued(queued)})
        turn = LiveTurn(self._renderer, conversation.id)
        has_started = False
        async for envelope in envelopes:
            for update in await turn.updates(envelope.event):
                yield frame(update)
            if has_started:
                # The first message is stored by now, so a new conversation has its title.
                overviews = await self._conversations.overviews()
                sidebar = self._renderer.sidebar(conversation, overviews)
                yield frame({"op": "sidebar", "html": sidebar, "title": title_of(conversation, overviews)})
            has_started = isinstance(envelope.event, TurnStarted)

    async def _transcript(self, conversation: Conversation, limit: int) -> tuple[Markup, bool]:
        """Render the newest messages; also return whether there are older ones."""
        messages, earlier = await self._conversations.whole_turns(conversation.id, limit)
        return await asyncio.to_thread(self._renderer.transcript, conversation.id, messages), earlier


def _limit(request: web.Request) -> int:
    return optional_int(request, "limit", minimum=1, maximum=_MAX_SHOWN) or _SHOWN_MESSAGES


_MIN_RENDERED = 80
_MIN_RENDERED_SHARE = 8
"""Each update renders the whole answer again, so it waits until an eighth of the answer is new. The work then grows
with the length of an answer, not with its square."""


class LiveTurn:
    """Translates the events of one conversation into updates of one page: the server renders HTML, the browser inserts
    it. `log.js` lists the operations."""

    def __init__(self, renderer: HtmlRenderer, conversation_id: str) -> None:
        self._renderer = renderer
        self._conversation_id = conversation_id
        self._reset()

    def _reset(self) -> None:
        self._rendered = ""
        """The part of the current answer that the page shows rendered."""
        self._plain = ""
        """The rest of the current answer, which the page shows as plain text."""
        self._answered = False
        """Whether text was shown since the turn started or the last tool ran."""
        self._calls: dict[str, ToolCall] = {}
        """Running tool calls."""
        self._asked: dict[str, ApprovalAsked] = {}
        """Open approvals."""
        self._usages: list[Usage] = []

    async def updates(self, event: TurnEvent) -> list[Update]:
        match event:
            case TurnStarted(message_id, text):
                self._reset()
                html = self._renderer.user_message(message_id, text)
                return [{"op": "start_turn", "id": message_id, "html": html}]
            case TextDelta(text):
                return [await self._append_text(text)]
            case Queued():
                return [{"op": "queued", "id": event.message_id, "html": self._renderer.queued(event)}]
            case Notice(text):
                return [{"op": "notice", "html": self._renderer.notice(text)}]
            case Compacted():
                notice = (
                    f"The conversation was compacted from {event.tokens_before:,} to {event.tokens_after:,} tokens. "
                    "All messages stay here and can be searched."
                )
                return [{"op": "notice", "html": self._renderer.notice(notice)}]
            case TurnDone(text) if not self._rendered and not self._plain and not self._answered:
                # The text was not streamed.
                self._plain = text
        # Every other event ends the current text.
        return await self._finish_text() + self._after_text(event)

    def _after_text(self, event: TurnEvent) -> list[Update]:
        match event:
            case Steered(message_id, text):
                html = self._renderer.user_message(message_id, text)
                return [{"op": "append", "id": message_id, "html": html}]
            case ToolStarted(call_id, name, arguments):
                call = self._calls[call_id] = ToolCall(call_id, name, arguments)
                self._answered = False
                return [{"op": "append", "html": self._renderer.tool(ToolView(call, "running"))}]
            case ToolFinished(call_id, name):
                call = self._calls.pop(call_id, ToolCall(call_id, name, ""))
                state: ToolState = "done" if event.ok else "failed"
                return [self._replace_tool(ToolView(call, state, event.result, event.seconds))]
            case ApprovalAsked():
                self._asked[event.approval_id] = event
                return [{"op": "append", "html": self._renderer.approval(event)}]
            case ApprovalSettled(approval_id) if asked := self._asked.pop(approval_id, None):
                html = self._renderer.approval(asked, event.choice)
                return [{"op": "replace_approval", "id": approval_id, "html": html}]
            case FileSent():
                sent = SentFile(event.path, event.caption)
                return [{"op": "append", "html": self._renderer.file(self._conversation_id, sent)}]
            case UsageReported(usage):
                self._usages.append(usage)
            case TurnDone(_, stopped):
                return self._end(self._renderer.notice("Stopped.") if stopped else "")
            case TurnFailed(error):
                return self._end(self._renderer.failure(error))
        return []

    async def _append_text(self, text: str) -> Update:
        """Render complete paragraphs; the last one stays plain until it is complete."""
        self._plain += text
        end = self._plain.rfind("\n\n")
        if end < max(_MIN_RENDERED, len(self._rendered) // _MIN_RENDERED_SHARE):
            return {"op": "append_text", "text": text}
        self._rendered, self._plain = self._rendered + self._plain[: end + 2], self._plain[end + 2 :]
        html = await asyncio.to_thread(render_markdown, self._rendered)
        return {"op": "render_text", "html": html, "rest": self._plain}

    async def _finish_text(self) -> list[Update]:
        text = self._rendered + self._plain
        self._rendered = self._plain = ""
        if not text:
            return []
        if not text.strip():
            return [{"op": "finish_text", "html": ""}]
        self._answered = True
        return [{"op": "finish_text", "html": await asyncio.to_thread(self._renderer.answer, text)}]

    def _replace_tool(self, view: ToolView) -> Update:
        return {"op": "replace_tool", "id": view.call.id, "html": self._renderer.tool(view)}

    def _end(self, last_part: str) -> list[Update]:
        updates = [self._replace_tool(ToolView(call, "abandoned")) for call in self._calls.values()]
        if last_part:
            updates.append({"op": "append", "html": last_part})
        if any(usage.total_tokens for usage in self._usages):
            updates.append({"op": "append", "html": self._renderer.usage(self._usages)})
        return [*updates, {"op": "end_turn"}]
