"""Middleware that turns errors into a sentence: JSON for programs, a page for people."""

from __future__ import annotations

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from agent.errors import HermesError, NotFound
from gateway.platforms.web.renderer import HtmlRenderer
from gateway.platforms.web.security import is_owner

log = structlog.get_logger(__name__)

_SENTENCES = {
    404: "Not found: the address is wrong, or it belongs to an earlier installation.",
    405: "This address does not accept that kind of request.",
    413: "The request is too large; a message may have 100 kB.",
}


def error_middleware(renderer: HtmlRenderer) -> Middleware:
    """Handle expected errors; the server logs any other exception and answers 500."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except NotFound:
            return _answer(renderer, request, 404, _SENTENCES[404])
        except HermesError as error:
            log.warning("web.request_failed", path=request.path, error=type(error).__name__)
            return _answer(renderer, request, 503, str(error))
        except web.HTTPException as error:
            if error.status < 400:
                raise
            return _answer(renderer, request, error.status, _sentence(error))

    return middleware


def _wants_json(request: web.Request) -> bool:
    return request.path.startswith("/api/") or request.path in ("/healthz", "/readyz", "/metrics")


def _sentence(error: web.HTTPException) -> str:
    """Return the sentence of the error; an error of aiohttp has only a number and a phrase."""
    text = error.text or ""
    if text.startswith(f"{error.status}: ") or error.status == 413:
        return _SENTENCES.get(error.status, f"The request was refused: {error.reason}.")
    return text


def _answer(renderer: HtmlRenderer, request: web.Request, status: int, sentence: str) -> web.Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if _wants_json(request):
        return web.json_response({"error": sentence}, status=status, headers=headers)
    is_reader = not is_owner(request)
    html = renderer.error_page(
        sentence,
        asks_for_token=status == 401 or (is_reader and status == 403),
        is_reader=is_reader,
        is_wrong_token=status == 401 and request.method == "POST",
    )
    return web.Response(text=html, content_type="text/html", status=status, headers=headers)
