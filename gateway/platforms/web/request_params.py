"""Reads and checks the parameters of a request: query strings and JSON bodies."""

from __future__ import annotations

import json
from typing import Any, TypeGuard

from aiohttp import web

_MAX_STRING = 300
_MAX_POSITIVE = 10**9
_MAX_DIGITS = 18


def is_integer(given: str) -> bool:
    return given.isascii() and given.isdigit() and len(given) <= _MAX_DIGITS


def optional_int(
    request: web.Request, name: str, *, minimum: int = 0, maximum: int | None = None
) -> int | None:
    """Return a number of the query string, capped at `maximum`; None if it is missing."""
    given = request.query.get(name)
    if given is None:
        return None
    if not is_integer(given) or int(given) < minimum:
        raise web.HTTPBadRequest(text=f"`{name}` must be a whole number, {minimum} or more.")
    return int(given) if maximum is None else min(int(given), maximum)


def positive_int(request: web.Request, name: str, default: int) -> int:
    return optional_int(request, name, minimum=1, maximum=_MAX_POSITIVE) or default


def query_text(request: web.Request, name: str, *, max_length: int) -> str:
    """Return a text of the query string; empty if it is missing."""
    given = request.query.get(name, "").strip()
    if len(given) > max_length:
        raise web.HTTPBadRequest(text=f"`{name}` may have at most {max_length} characters.")
    return given


async def json_object(request: web.Request) -> dict[str, Any]:
    """Return the JSON object in the body."""
    try:
        # `request.json()` would decode by the charset of the header; JSON detects its own encoding.
        body = json.loads(await request.read())
    except (ValueError, RecursionError):
        raise web.HTTPBadRequest(text="The body is not valid JSON.") from None
    if not isinstance(body, dict):
        raise web.HTTPBadRequest(text="The body must be a JSON object.")
    return body


async def required_strings(request: web.Request, *names: str) -> list[str]:
    """Return these strings of the JSON body, in this order."""
    body = await json_object(request)
    for name in names:
        if not (is_text(value := body.get(name)) and 0 < len(value) <= _MAX_STRING):
            raise web.HTTPBadRequest(text=f"`{name}` must be a string of 1 to {_MAX_STRING} characters.")
    return [body[name] for name in names]


def optional_text(body: dict[str, Any], name: str, *, max_length: int) -> str:
    """Return a string of a JSON body; empty if it is missing."""
    given = body.get(name, "")
    if not (is_text(given) and len(given) <= max_length):
        raise web.HTTPBadRequest(text=f"`{name}` must be a string of at most {max_length} characters.")
    return given


def is_text(value: object) -> TypeGuard[str]:
    """Check for a string that can be stored: JSON can hold lone surrogates, which no encoding can."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def result_response(sentence: str) -> web.Response:
    """Answer a button of the dashboard with the sentence that the page shows."""
    return web.json_response({"said": sentence})
