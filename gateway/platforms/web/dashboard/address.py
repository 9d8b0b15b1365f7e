"""What stands in an address or comes from a form, checked: a sentence for whatever cannot be meant."""

from __future__ import annotations

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


def field(body: dict[str, Any], name: str, *, longest: int) -> str:
    """Text on one line; empty where it is not given."""
    given = body.get(name, "")
    if not isinstance(given, str) or len(given) > longest:
        raise web.HTTPBadRequest(text=f"`{name}` must be text of at most {longest} characters.")
    return " ".join(given.encode("utf-8", "replace").decode().split())


def local_time(stamp: float) -> str:
    return datetime.fromtimestamp(stamp).astimezone().strftime("%d %b %Y, %H:%M").lstrip("0")
