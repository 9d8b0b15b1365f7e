"""What a button sends."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from gateway.platforms.web.api import is_text, json_object, whole_number

_LONGEST = 300


async def asked(request: web.Request, *names: str) -> list[str]:
    """These texts from the body of the request, in this order; a sentence where one of them is missing or no text."""
    body = await json_object(request)
    found: list[str] = []
    for name in names:
        value = body.get(name)
        if not (is_text(value) and 0 < len(value) <= _LONGEST):
            raise web.HTTPBadRequest(text=f"`{name}` must be text of 1 to {_LONGEST} characters.")
        found.append(value)
    return found


def line(body: dict[str, Any], name: str, *, longest: int) -> str:
    """Text on one line; empty where it is not given."""
    given = body.get(name, "")
    if not (is_text(given) and len(given) <= longest):
        raise web.HTTPBadRequest(text=f"`{name}` must be text of at most {longest} characters.")
    return " ".join(given.split())


def said(sentence: str) -> web.Response:
    return web.json_response({"said": sentence})


_HIGHEST = 10**9


def number(request: web.Request, name: str, default: int) -> int:
    """From 1 on."""
    return whole_number(request, name, lowest=1, highest=_HIGHEST) or default


def text(request: web.Request, name: str, *, longest: int) -> str:
    given = request.query.get(name, "").strip()
    if len(given) > longest:
        raise web.HTTPBadRequest(text=f"`{name}` may have at most {longest} characters.")
    return given
