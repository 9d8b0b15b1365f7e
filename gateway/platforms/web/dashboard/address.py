"""What stands in an address, checked: a sentence for whatever cannot be meant."""

from __future__ import annotations

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
