"""The chat page, and the event stream that keeps an open page up to date."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from pathlib import Path

from aiohttp import web
from markupsafe import Markup

from agent.events import TurnStarted
from agent.store import Conversation
from gateway.core.events import Envelope
from gateway.core.gateway import Gateway
from gateway.platforms.web.owner_conversations import OwnerConversations
from gateway.platforms.web.renderer import HtmlRenderer, title_of
from gateway.platforms.web.request_params import optional_int
from gateway.platforms.web.sse import EventStreams, frame
from gateway.platforms.web.turn_stream import LiveTurn, Update

STATIC = Path(__file__).parent / "static"

_SHOWN_MESSAGES = 200
_MAX_SHOWN = 10_000


class Pages:
    """Handlers that answer with HTML."""

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
        latest = await self._conversations.latest_on_the_web()
        location = f"/c/{latest.conversation.id}" if latest else "/new"
        return web.Response(status=303, headers={"Location": location})

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
            yield frame({"op": "waiting", "id": queued.message_id, "html": self._renderer.waiting(queued)})
        turn = LiveTurn(self._renderer, conversation.id)
        has_started = False
        async for envelope in envelopes:
            for update in await turn.updates(envelope.event):
                yield frame(update)
            if has_started:
                # The first message is stored by now, so a new conversation has its title.
                yield frame(await self._sidebar(conversation))
            has_started = isinstance(envelope.event, TurnStarted)

    async def _sidebar(self, conversation: Conversation) -> Update:
        overviews = await self._conversations.overviews()
        html = self._renderer.sidebar(conversation, overviews)
        return {"op": "sidebar", "html": html, "title": title_of(conversation, overviews)}

    async def _transcript(self, conversation: Conversation, limit: int) -> tuple[Markup, bool]:
        """Render the newest messages; also return whether there are older ones."""
        messages, earlier = await self._conversations.whole_turns(conversation.id, limit)
        return await asyncio.to_thread(self._renderer.transcript, conversation.id, messages), earlier


def _limit(request: web.Request) -> int:
    return optional_int(request, "limit", minimum=1, maximum=_MAX_SHOWN) or _SHOWN_MESSAGES
