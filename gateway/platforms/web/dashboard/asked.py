"""What a button sends."""

from __future__ import annotations

from aiohttp import web

from gateway.platforms.web.api import json_object

_LONGEST = 300


async def asked(request: web.Request, *names: str) -> list[str]:
    """These texts from the body of the request, in this order; a sentence where one of them is missing or no text."""
    body = await json_object(request)
    found = []
    for name in names:
        value = body.get(name)
        if not (isinstance(value, str) and 0 < len(value) <= _LONGEST and _is_encodable(value)):
            raise web.HTTPBadRequest(text=f"`{name}` must be text of 1 to {_LONGEST} characters.")
        found.append(value)
    return found


def said(sentence: str) -> web.Response:
    return web.json_response({"said": sentence})


def _is_encodable(text: str) -> bool:
    """JSON can spell lone surrogates, which no encoding can store."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
