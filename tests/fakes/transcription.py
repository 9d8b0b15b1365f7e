"""A server that speaks OpenAI's audio transcriptions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web


class FakeTranscription:
    """POST /v1/audio/transcriptions. Answers with `text`, unless told to fail."""

    def __init__(self, text: str = "Hello from the microphone.") -> None:
        self.text = text
        self.status = 200
        self.usage: dict[str, object] | None = None
        """What it says about its price, as OpenAI does: in tokens or in seconds."""
        self.until: asyncio.Event | None = None
        """It answers once this is set."""
        self.arrived = asyncio.Event()
        """Set by each recording."""
        self.heard: list[tuple[str, bytes]] = []
        """File name and content of each request."""
        self.url = ""

    @classmethod
    @asynccontextmanager
    async def open(cls, text: str = "Hello from the microphone.") -> AsyncIterator[FakeTranscription]:
        server = cls(text)
        app = web.Application(client_max_size=30_000_000)
        app.router.add_post("/v1/audio/transcriptions", server._transcribe)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        try:
            yield server
        finally:
            await runner.cleanup()

    async def _transcribe(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer test-key":
            return _error(401, "Incorrect API key provided.")
        form = await request.post()
        file, model = form.get("file"), form.get("model")
        if not isinstance(file, web.FileField) or not model:
            return _error(400, "`file` and `model` are required.")
        self.heard.append((file.filename, file.file.read()))
        self.arrived.set()
        if self.until is not None:
            await self.until.wait()
        if self.status != 200:
            return _error(self.status, "The recording cannot be used.")
        usage = {"usage": self.usage} if self.usage else {}
        return web.json_response({"text": self.text, **usage})


def _error(status: int, message: str) -> web.Response:
    body = {"error": {"message": message, "type": "invalid_request_error", "code": None, "param": None}}
    return web.json_response(body, status=status)
