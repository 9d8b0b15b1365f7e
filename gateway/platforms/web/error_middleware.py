"""Everything that goes wrong with a request, as a sentence: JSON for programs, a page for people."""

from __future__ import annotations

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from agent.errors import HermesError, NotFound
from gateway.platforms.web.renderer import HtmlRenderer
from gateway.platforms.web.security import may_act

log = structlog.get_logger(__name__)

_SENTENCES = {
    404: "There is nothing here; it may belong to an earlier installation, or the address is wrong.",
    405: "This address does not take that kind of request.",
    413: "That is too much at once; a message may have 100 kB.",
}


def problems_as_sentences(views: HtmlRenderer) -> Middleware:
    """Bugs are not handled here: the server logs them and answers 500."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except NotFound:
            return _answer(views, request, 404, _SENTENCES[404])
        except HermesError as error:
            log.warning("web.failed", path=request.path, error=type(error).__name__)
            return _answer(views, request, 503, str(error))
        except web.HTTPException as error:
            if error.status < 400:
                raise
            return _answer(views, request, error.status, _sentence(error))

    return middleware


def for_programs(request: web.Request) -> bool:
    return request.path.startswith("/api/") or request.path in ("/healthz", "/readyz", "/metrics")


def _sentence(error: web.HTTPException) -> str:
    """Ours where we raised it; aiohttp's own are only a number and a phrase."""
    said = error.text or ""
    if said.startswith(f"{error.status}: ") or error.status == 413:
        return _SENTENCES.get(error.status, f"The request was refused: {error.reason}.")
    return said


def _answer(views: HtmlRenderer, request: web.Request, status: int, sentence: str) -> web.Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if for_programs(request):
        return web.json_response({"error": sentence}, status=status, headers=headers)
    is_reader = not may_act(request)
    html = views.problem(
        sentence,
        asks_for_token=status == 401 or (is_reader and status == 403),
        is_reader=is_reader,
        is_wrong_token=status == 401 and request.method == "POST",
    )
    return web.Response(text=html, content_type="text/html", status=status, headers=headers)
