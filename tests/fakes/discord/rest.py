"""The REST side: routes and what surrounds each of them (token, record, rate limit, planned trouble, error bodies)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import BodyPartReader, web

from tests.fakes.discord.errors import Refused, plain, refused
from tests.fakes.discord.faults import Call, Fault, Faults, Limits, RateLimited
from tests.fakes.discord.messages import Attachment, Upload
from tests.fakes.discord.service_state import DiscordState

API = "/api/v10"
MAX_REQUEST = 25 * 2**20

Answer = Any
"""JSON, a file, or None for 204."""
Act = Callable[[Call], Answer]


class Rest:
    """`calls` has every request in order of arrival."""

    def __init__(self, state: DiscordState, *, token: str) -> None:
        self.state = state
        self.token = token
        self.calls: list[Call] = []
        self.faults = Faults()
        self.limits = Limits(state.clock)

    def add(
        self, app: web.Application, verb: str, method: str, path: str, act: Act, *, auth: bool = True
    ) -> None:
        """`auth`: the bot's token must come with it. Interactions carry their own in the path."""

        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._answer(request, verb, act, auth)

        app.router.add_route(method, path, handle)

    async def unknown_route(self, request: web.Request) -> web.StreamResponse:
        def act(call: Call) -> Answer:
            raise plain(404, "Not Found")

        return await self._answer(request, "unknown", act, False)

    async def _answer(self, request: web.Request, verb: str, act: Act, auth: bool) -> web.StreamResponse:
        call = await self._record(request, verb)
        with _in_flight(self.state, call):
            return await self._answer_call(request, call, act, auth)

    async def _answer_call(
        self, request: web.Request, call: Call, act: Act, auth: bool
    ) -> web.StreamResponse:
        headers: dict[str, str] = {}
        fault: Fault | None = None
        try:
            self._admit(call, auth)
            headers = self.limits.take(call)
            fault = self.faults.take(call)
            if fault is not None and not await self._survives(fault, request):
                return _dropped(request)
            answer, status = act(call), 200
        except Refused as refusal:
            answer, status = refusal.body, refusal.status
        except RateLimited as limited:
            answer, status, headers = limited.body, 429, {**headers, **limited.headers}
        if fault is not None:
            await fault.hold("after")
            if fault.drops == "after":
                return _dropped(request)
            if fault.body is not None:
                answer = fault.body
        return self._respond(call, 204 if answer is None else status, answer, headers)

    def _admit(self, call: Call, auth: bool) -> None:
        if isinstance(call.body, Refused):
            raise call.body
        if auth and call.token != self.token:
            raise plain(401, "Unauthorized")

    async def _survives(self, fault: Fault, request: web.Request) -> bool:
        await fault.hold("before")
        if fault.drops == "before":
            return False
        if fault.refusal is not None:
            raise fault.refusal
        if fault.retry_after is not None:
            raise RateLimited(fault.retry_after, is_global=fault.is_global)
        return True

    async def _record(self, request: web.Request, verb: str) -> Call:
        files: dict[int, Upload] = {}
        try:
            body = await _read_body(request, files)
        except Refused as refusal:
            body = refusal
        call = Call(
            verb,
            request.method,
            request.path.removeprefix(API),
            dict(request.match_info),
            dict(request.query),
            body,
            files,
            self.state.clock.now(),
            request.headers.get("Authorization", "").removeprefix("Bot "),
        )
        self.calls.append(call)
        self.state.watch.changed()
        return call

    def _respond(self, call: Call, status: int, answer: Answer, headers: dict[str, str]) -> web.Response:
        call.status, call.answer = status, answer
        self.state.watch.changed()
        headers = {**headers, "Via": "1.1 google"}
        if status == 204:
            return web.Response(status=204, headers=headers)
        if isinstance(answer, Attachment):
            return web.Response(body=answer.data, headers={"Content-Type": answer.content_type})
        # With `text=` aiohttp would add a charset, and the SDK wants the bare type.
        body = json.dumps(answer).encode()
        return web.Response(status=status, body=body, content_type="application/json", headers=headers)


@contextlib.contextmanager
def _in_flight(state: DiscordState, call: Call) -> Iterator[None]:
    """Counts how many edits of one message are on their way at the same time."""
    message = None
    if call.verb == "edit_message" and call.ids["message_id"].isdecimal():
        message = state.messages.get(int(call.ids["message_id"]))
    if message is None:
        yield
        return
    message.edits_in_flight += 1
    message.most_edits_in_flight = max(message.most_edits_in_flight, message.edits_in_flight)
    try:
        yield
    finally:
        message.edits_in_flight -= 1


def _dropped(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()  # never sent: the connection is gone


async def _read_body(request: web.Request, files: dict[int, Upload]) -> Any:
    if request.content_length is not None and request.content_length > MAX_REQUEST:
        raise refused(40005)
    if request.content_type == "multipart/form-data":
        return await _read_multipart(request, files)
    raw = await request.read()
    if not raw:
        return None
    if request.content_type != "application/json":
        raise refused(50109)
    return _parse(raw)


async def _read_multipart(request: web.Request, files: dict[int, Upload]) -> Any:
    body: Any = {}
    reader = await request.multipart()
    async for part in reader:
        assert isinstance(part, BodyPartReader)
        name, data = part.name or "", bytes(await part.read())
        if name == "payload_json":
            body = _parse(data)
        elif name.startswith("files[") and name.endswith("]"):
            number = int(name[6:-1])
            files[number] = Upload(part.filename or f"file{number}", data)
    return body


def _parse(raw: bytes) -> Any:
    try:
        parsed = json.loads(raw)
        json.dumps(parsed, ensure_ascii=False).encode()  # half a surrogate pair is not a character
    except ValueError:
        raise refused(50109) from None
    return parsed
