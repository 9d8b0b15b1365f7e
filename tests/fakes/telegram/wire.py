"""A request to the Bot API as it comes over the wire: query, form, multipart or JSON, and what is in it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import BodyPartReader, web

from tests.fakes.telegram.errors import bad_request

_PLAIN = {"text", "caption", "parse_mode", "callback_query_id", "url", "secret_token", "file_id", "action"}
"""Fields that are text even when they look like a number or like JSON."""


@dataclass(frozen=True, slots=True)
class Upload:
    name: str
    mime: str
    data: bytes


@dataclass(slots=True)
class Arguments:
    """The named values of one call. Wrong types become the API's complaints when they are asked for."""

    values: dict[str, Any] = field(default_factory=dict)
    uploads: dict[str, Upload] = field(default_factory=dict)

    def text(self, name: str) -> str:
        value = self.values.get(name)
        return "" if value is None else str(value)

    def integer(self, name: str, default: int = 0) -> int:
        """The API ignores a parameter that is not a number."""
        value = self.values.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    def flag(self, name: str) -> bool:
        return self.values.get(name) in (True, 1, "true", "True", "yes")

    def items(self, name: str) -> list[Any] | None:
        value = self.values.get(name)
        if value in (None, ""):
            return None
        if not isinstance(value, list):
            raise bad_request(f"can't parse {name.replace('_', ' ')} JSON array")
        return value

    def item(self, name: str) -> dict[str, Any] | None:
        value = self.values.get(name)
        if value in (None, ""):
            return None
        if not isinstance(value, dict):
            raise bad_request(f"object expected as {name.replace('_', ' ')}")
        return value


async def read_arguments(request: web.Request) -> Arguments:
    arguments = Arguments({name: _decoded(name, value) for name, value in request.query.items()})
    if request.content_type == "application/json" and request.can_read_body:
        arguments.values.update(await _json_object(request))
    elif request.content_type == "multipart/form-data":
        await _read_parts(request, arguments)
    elif request.can_read_body:
        form = await request.post()
        arguments.values.update({name: _decoded(name, str(value)) for name, value in form.items()})
    return arguments


async def _json_object(request: web.Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.read())
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise bad_request("can't parse JSON object")
    return body


async def _read_parts(request: web.Request, arguments: Arguments) -> None:
    async for part in await request.multipart():
        assert isinstance(part, BodyPartReader)
        name = part.name or ""
        if part.filename is None:
            arguments.values[name] = _decoded(name, await part.text())
            continue
        mime = part.headers.get("Content-Type", "application/octet-stream")
        arguments.uploads[name] = Upload(part.filename, mime, bytes(await part.read()))


def _decoded(name: str, value: str) -> Any:
    """Nested values arrive as JSON strings, numbers and booleans as their text."""
    if name in _PLAIN:
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
