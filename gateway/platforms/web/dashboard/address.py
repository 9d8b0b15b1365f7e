"""What stands in an address or a body, checked: a sentence for whatever cannot be meant."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from aiohttp import web

from gateway.platforms.web.api import whole_number

_HIGHEST = 10**9


def number(request: web.Request, name: str, default: int) -> int:
    """From 1 on."""
    return whole_number(request, name, lowest=1, highest=_HIGHEST) or default


def text(request: web.Request, name: str, *, longest: int) -> str:
    given = request.query.get(name, "").strip()
    if len(given) > longest:
        raise web.HTTPBadRequest(text=f"`{name}` may have at most {longest} characters.")
    return given


async def body_of(request: web.Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.read())
    except (ValueError, RecursionError):
        raise web.HTTPBadRequest(text="The body is not valid JSON.") from None
    if not isinstance(body, dict):
        raise web.HTTPBadRequest(text="The body must be a JSON object.")
    return body


def field(body: dict[str, Any], name: str, *, longest: int) -> str:
    """Text on one line; empty where it is not given."""
    given = body.get(name, "")
    if not isinstance(given, str) or len(given) > longest:
        raise web.HTTPBadRequest(text=f"`{name}` must be text of at most {longest} characters.")
    return " ".join(given.encode("utf-8", "replace").decode().split())


def local_time(stamp: float) -> str:
    return datetime.fromtimestamp(stamp).astimezone().strftime("%d %b %Y, %H:%M").lstrip("0")
