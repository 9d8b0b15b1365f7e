"""One websocket of the gateway, the session that outlives it, and the codes with which it is closed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import zlib
from collections import deque
from dataclasses import dataclass, field
from uuid import uuid4

from aiohttp import web

from tests.fakes.discord.errors import Json
from tests.fakes.discord.service_state import Intent

SENDS_PER_MINUTE = 120

CLOSE_REASONS = {
    4001: "Unknown opcode.",
    4002: "Error while decoding payload.",
    4003: "Not authenticated.",
    4004: "Authentication failed.",
    4005: "Already authenticated.",
    4007: "Invalid seq.",
    4008: "Rate limited.",
    4009: "Session timed out.",
    4012: "Invalid API version.",
    4013: "Invalid intent(s).",
    4014: "Disallowed intent(s).",
}


class Close(Exception):
    """The client has done something for which the gateway hangs up."""

    def __init__(self, code: int) -> None:
        super().__init__(CLOSE_REASONS[code])
        self.code = code


@dataclass(eq=False)
class Session:
    """Outlives its connections: what is sent while there is none waits for RESUME."""

    intents: Intent
    id: str = field(default_factory=lambda: uuid4().hex)
    sent: list[Json] = field(default_factory=list)
    connection: Connection | None = None

    def wants(self, intent: Intent | None) -> bool:
        return intent is None or intent in self.intents

    def dispatch(self, event: str, data: Json) -> None:
        frame = {"op": 0, "t": event, "s": len(self.sent) + 1, "d": data}
        self.sent.append(frame)
        if self.connection is not None:
            self.connection.send(frame)


class Connection:
    """One websocket. Frames leave in order through a queue, so that telling an event never waits."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request) -> None:
        self.socket = socket
        self.session: Session | None = None
        self.hung_up = False
        """It was the gateway that closed it."""
        self._request = request
        self._frames: asyncio.Queue[Json] = asyncio.Queue()
        self._deflate = zlib.compressobj() if request.query.get("compress") == "zlib-stream" else None
        self._received: deque[float] = deque(maxlen=SENDS_PER_MINUTE)
        self._writer = asyncio.create_task(self._write())

    def send(self, frame: Json) -> None:
        self._frames.put_nowait(frame)

    async def flush(self) -> None:
        await self._frames.join()

    def note_received(self) -> None:
        """More than 120 payloads a minute end the connection."""
        now = asyncio.get_running_loop().time()
        if len(self._received) == SENDS_PER_MINUTE and now - self._received[0] < 60:
            raise Close(4008)
        self._received.append(now)

    async def hang_up(self, code: int, reason: str) -> None:
        self.hung_up = True
        await self.socket.close(code=code, message=reason.encode())

    def abort(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()

    async def end(self) -> None:
        self._writer.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._writer
        while not self._frames.empty():
            self._frames.get_nowait()
            self._frames.task_done()

    async def _write(self) -> None:
        while True:
            frame = await self._frames.get()
            try:
                await self._send(json.dumps(frame))
            except ConnectionError:
                pass  # the reader notices; the session keeps the frame for RESUME
            finally:
                self._frames.task_done()

    async def _send(self, text: str) -> None:
        if self._deflate is None:
            await self.socket.send_str(text)
        else:
            data = self._deflate.compress(text.encode()) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
            await self.socket.send_bytes(data)
