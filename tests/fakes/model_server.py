"""The part OpenAI's and Anthropic's servers share: listening, scripts, records, streaming and its accidents.

    async with FakeOpenAI() as server:
        server.reply("Hello there")
        server.fail(429, retry_after=2)
        ...                                    # point a client at server.base_url
        assert server.requests[0].body["messages"][-1]["content"] == "Hi"

Requests take scripted steps in order, then ask the handler given to `script()`, then get an echo of the
last user message. In a test without an event loop: `with FakeOpenAI().in_thread() as server:`; every verb
works from any thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

from tests.fakes.script import Call, Failure, Reply
from tests.support.watch import PATIENCE, Watch


class Refused(Exception):
    """The request breaks a rule of the API."""

    def __init__(self, message: str, *, code: str = "", status: int = 400) -> None:
        super().__init__(message)
        self.failure = Failure(status, message, code)


@dataclass(slots=True)
class Seen:
    """A request as it arrived, and what was counted for it."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    usage: dict[str, Any] = field(default_factory=dict)
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """One server-sent event. `piece`: it carries text or arguments, and `Reply.after` counts it."""

    data: bytes
    piece: bool = False


Handler = Callable[[Seen], Reply | Failure]


class ModelServer(ABC):
    path: str
    """Path of the chat endpoint."""

    def __init__(
        self, *, api_key: str = "test-key", context_length: int = 200_000, models: Sequence[str] = ()
    ) -> None:
        self.api_key = api_key
        self.context_length = context_length
        self.models = tuple(models)
        """The models this server knows; empty: it takes any name."""
        self.requests: list[Seen] = []
        self.disconnects = 0
        """Clients that went away before their answer was complete."""
        self.numbers = itertools.count(1)
        self._steps: deque[Reply | Failure] = deque()
        self._handler: Handler | None = None
        self._held: list[asyncio.Event] = []
        self._watch = Watch()
        self._closing = False

    @property
    @abstractmethod
    def base_url(self) -> str:
        """Value for `model.base_url`."""

    @abstractmethod
    def key_of(self, headers: Mapping[str, str]) -> str | None: ...

    @abstractmethod
    def check(self, body: dict[str, Any], headers: Mapping[str, str]) -> None:
        """Raises Refused."""

    @abstractmethod
    def account(self, body: dict[str, Any]) -> dict[str, Any]:
        """The prompt's share of the usage. Raises Refused when it does not fit the window."""

    @abstractmethod
    def whole(self, body: dict[str, Any], reply: Reply, usage: dict[str, Any]) -> dict[str, Any]:
        """The answer in one piece. Completes `usage`."""

    @abstractmethod
    def frames(self, body: dict[str, Any], reply: Reply, usage: dict[str, Any]) -> list[Frame]:
        """The answer as events. Completes `usage`."""

    @abstractmethod
    def error_body(self, failure: Failure) -> dict[str, Any]: ...

    @abstractmethod
    def error_frame(self, failure: Failure) -> Frame: ...

    @abstractmethod
    def last_user_text(self, body: dict[str, Any]) -> str: ...

    @abstractmethod
    def overflow_failure(self) -> Failure:
        """Error of this provider for a prompt larger than the window."""

    def reply(self, text: str = "", *, tool_calls: Sequence[Call] = (), **how: Any) -> None:
        """The next request gets this answer. `how`: the other fields of `Reply`."""
        self._steps.append(Reply(text, tool_calls, **how))

    def fail(
        self, status: int, message: str = "", *, code: str = "", retry_after: float | None = None
    ) -> None:
        self._steps.append(Failure(status, message, code, retry_after))

    def fail_midway(self, status: int, text: str, *, after: int) -> None:
        """The stream begins well and then holds an error event."""
        self._steps.append(Reply(text, failure=Failure(status), after=after))

    def overflow(self) -> None:
        self._steps.append(self.overflow_failure())

    def drop(self, text: str = "", *, after: int | None = None, **how: Any) -> None:
        """The connection is torn down: before the headers, or after that many pieces.

        What the client has not read by then is lost to it; with `hold=True` the test says when.
        """
        self._steps.append(Reply(text, trouble="drop", after=after, **how))

    def cut(self, text: str = "", *, after: int | None = None, **how: Any) -> None:
        """The stream ends cleanly without a finish reason, after that many pieces or after all of them."""
        self._steps.append(Reply(text, trouble="cut", after=after, **how))

    def hang(self, text: str = "", *, after: int | None = None, **how: Any) -> None:
        """The answer waits for `release()`: before the headers, or after that many pieces."""
        self._steps.append(Reply(text, hold=True, after=after, **how))

    def script(self, handler: Handler) -> None:
        """Ask `handler` whenever no step is left."""
        self._handler = handler

    def release(self) -> None:
        """Lets every request go on that hangs now."""
        held, self._held = self._held, []
        for event in held:
            self._loop.call_soon_threadsafe(event.set)

    async def request_count(self, count: int) -> None:
        """Until that many requests have arrived."""
        await self._watch.wait(lambda: len(self.requests) >= count)

    async def waiting(self, count: int = 1) -> None:
        """Until that many requests hang."""
        await self._watch.wait(lambda: len(self._held) >= count)

    async def disconnected(self, count: int = 1) -> None:
        """Until that many clients have gone away early."""
        await self._watch.wait(lambda: self.disconnects >= count)

    @property
    def watch(self) -> Watch:
        """For threads: `server.watch.until(lambda: len(server.requests) == 2).result(10)`."""
        return self._watch

    @property
    def refusals(self) -> list[str]:
        """The sentences with which malformed requests were turned away."""
        return [seen.refused for seen in self.requests if seen.refused]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        app = web.Application(client_max_size=64 * 2**20)
        self.add_routes(app)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port: int = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing = True
        self.release()
        await self._runner.cleanup()

    @contextlib.contextmanager
    def in_thread(self) -> Iterator[Self]:
        """The same server on a loop of its own."""
        up, down = threading.Event(), asyncio.Event()

        async def serve() -> None:
            async with self:
                up.set()
                await down.wait()

        thread = threading.Thread(target=asyncio.run, args=(serve(),), name=type(self).__name__)
        thread.start()
        assert up.wait(PATIENCE), "the server did not start"
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(down.set)
            thread.join(PATIENCE)

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post(self.path, self._answer)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        seen = Seen(request.path, request.headers, json.loads(await request.read()))
        self.requests.append(seen)
        self._watch.changed()
        try:
            step = self._admit(seen)
            if isinstance(step, Failure):
                return self._error(step)
            return await self._play(request, seen, step)
        except asyncio.CancelledError:
            self._lost_client()
            raise
        except ConnectionResetError:
            self._lost_client()
            return web.Response()  # never sent: the connection is gone

    def _lost_client(self) -> None:
        if not self._closing:
            self.disconnects += 1
            self._watch.changed()

    def _admit(self, seen: Seen) -> Reply | Failure:
        """The step for this request, or the refusal it deserves."""
        try:
            if self.key_of(seen.headers) != self.api_key:
                return Failure(401)
            self.check(seen.body, seen.headers)
            if self.models and seen.body["model"] not in self.models:
                return Failure(404, seen.body["model"])
            seen.usage = self.account(seen.body)
        except Refused as refused:
            seen.refused = str(refused)
            return refused.failure
        return self._next_step(seen)

    def _next_step(self, seen: Seen) -> Reply | Failure:
        if self._steps:
            return self._steps.popleft()
        if self._handler is not None:
            return self._handler(seen)
        return Reply(f"You said: {self.last_user_text(seen.body)}")

    async def _play(self, request: web.Request, seen: Seen, reply: Reply) -> web.StreamResponse:
        reply = reply.within(seen.body.get("max_tokens") or seen.body.get("max_completion_tokens"))
        if reply.after is None and await self._breaks(request, reply):
            return web.Response(status=500)  # never sent: the connection is gone
        if seen.body.get("stream"):
            return await self._stream(request, seen, reply)
        return web.json_response(self.whole(seen.body, reply, seen.usage))

    async def _stream(self, request: web.Request, seen: Seen, reply: Reply) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        )
        response.enable_chunked_encoding()
        await response.prepare(request)
        frames = self.frames(seen.body, reply, seen.usage)
        stop_at = reply.after
        if reply.trouble == "cut" and stop_at is None:
            stop_at = sum(frame.piece for frame in frames)
        sent = 0
        for frame in frames:
            if sent == stop_at:
                stop_at = None
                if await self._breaks(request, reply) or await self._ends_early(response, reply):
                    return response
            if reply.pace and frame.piece:
                await asyncio.sleep(reply.pace)
            await response.write(frame.data)
            sent += frame.piece
        await response.write_eof()
        return response

    async def _breaks(self, request: web.Request, reply: Reply) -> bool:
        """Hangs or drops, where the script says so. True when the connection is gone."""
        if reply.hold:
            event = asyncio.Event()
            self._held.append(event)
            self._watch.changed()
            await event.wait()
        if reply.trouble == "drop" and request.transport is not None:
            request.transport.abort()
            return True
        return False

    async def _ends_early(self, response: web.StreamResponse, reply: Reply) -> bool:
        if reply.failure is not None:
            await response.write(self.error_frame(reply.failure).data)
        if reply.failure is not None or reply.trouble == "cut":
            await response.write_eof()
            return True
        return False

    def _error(self, failure: Failure) -> web.Response:
        headers = {} if failure.retry_after is None else {"Retry-After": str(failure.retry_after)}
        return web.json_response(self.error_body(failure), status=failure.status, headers=headers)
