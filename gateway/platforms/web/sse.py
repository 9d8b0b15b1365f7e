"""Server-sent events: frames, heartbeats and streams."""

from __future__ import annotations

import asyncio
import json
from asyncio import FIRST_COMPLETED
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import structlog
from aiohttp import web

from agent.errors import HermesError
from gateway.platforms.clients import REQUEST_SECONDS, StreamLimit

log = structlog.get_logger(__name__)

_HEARTBEAT = b": still here\n\n"
_RECONNECT = b"retry: 1000\n\n"
"""A browser waits this many milliseconds before it reconnects."""

_HEADERS = {
    "Content-Type": "text/event-stream",
    # Tells proxies not to buffer the stream.
    "X-Accel-Buffering": "no",
}


def frame(data: Any, *, number: int | None = None) -> bytes:
    """Encode one event. JSON has no line breaks, so it fits on one `data` line."""
    head = f"id: {number}\n" if number is not None else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


class EventStreams:
    """The open event streams of one server."""

    def __init__(self, heartbeat_seconds: float, *, write_seconds: float = REQUEST_SECONDS) -> None:
        """A client that reads nothing for `write_seconds` is disconnected."""
        self._heartbeat_seconds = heartbeat_seconds
        self._write_seconds = write_seconds
        self._closing = asyncio.Event()
        self._limit = StreamLimit()

    async def send(self, request: web.Request, frames: AsyncGenerator[bytes, None]) -> web.StreamResponse:
        """Send frames until they end or the client disconnects; heartbeats detect a dead connection."""
        response = web.StreamResponse(headers=_HEADERS)
        with self._limit.slot(request):
            try:
                await response.prepare(request)
                await self._write(request, response, _RECONNECT)
                async with aclosing(frames), aclosing(self._with_heartbeats(frames)) as pieces:
                    async for piece in pieces:
                        await self._write(request, response, piece)
            except ConnectionResetError:
                log.debug("web.client_disconnected")
            except (HermesError, web.HTTPException) as error:
                # The status was sent already; the reconnecting client gets the error.
                log.warning("web.stream_failed", error=type(error).__name__)
        return response

    async def _write(self, request: web.Request, response: web.StreamResponse, piece: bytes) -> None:
        try:
            async with asyncio.timeout(self._write_seconds):
                await response.write(piece)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError from None

    async def close(self, app: web.Application) -> None:
        """End all streams, so that an open page does not delay the shutdown."""
        self._closing.set()

    async def _with_heartbeats(self, frames: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Add heartbeats while waiting for a frame; the wait itself is not cancelled, so no frame is lost."""
        seconds = self._heartbeat_seconds
        closing = asyncio.create_task(self._closing.wait())
        following = asyncio.ensure_future(anext(frames, None))
        try:
            while not closing.done():
                await asyncio.wait({following, closing}, timeout=seconds, return_when=FIRST_COMPLETED)
                if not following.done():
                    yield _HEARTBEAT
                elif (piece := following.result()) is not None:
                    yield piece
                    following = asyncio.ensure_future(anext(frames, None))
                else:
                    return
        finally:
            closing.cancel()
            following.cancel()
            await asyncio.wait({closing, following})
