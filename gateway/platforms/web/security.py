"""What keeps other people's pages out: the Host, Origin and content type of a request, a token, and headers.

A browser carries a foreign page's requests to this machine, so loopback alone protects nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Callable
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_OPEN_TO_ALL = ("/healthz", "/static/")
"""Says nothing about anybody; the page that asks for the token needs its style."""

_YEAR = 365 * 24 * 3600

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


async def add_security_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)
    # Files are asked for again with their ETag, so an upgrade shows at once; conversations stay in no cache.
    response.headers["Cache-Control"] = "no-cache" if request.path.startswith("/static/") else "no-store"


def only_our_own_requests(host: str, port: Callable[[], int]) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        named = request.headers.get("Host", "")
        if not _is_ours(named, host, port()):
            raise web.HTTPForbidden(
                text="Hermes does not answer under this name; use the address it printed at start."
            )
        if request.method not in ("GET", "HEAD"):
            _refuse_foreign(request, named)
        return await handler(request)

    return middleware


class TokenGate:
    """Asks for the token, if there is one: as `Authorization: Bearer`, or once as `/?token=` for a cookie."""

    def __init__(self, token: str | None, port: Callable[[], int]) -> None:
        self._token = token.encode() if token else None
        self._port = port

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path == "/" and "token" in request.query:
            return self._sign_in(request)
        if self._token is None or request.path.startswith(_OPEN_TO_ALL) or self._admits(request, self._token):
            return await handler(request)
        raise web.HTTPUnauthorized(text="This Hermes is protected by a token: `platforms.web.token`.")

    def _sign_in(self, request: web.Request) -> web.Response:
        """Redirects, so that the token does not stay in the address."""
        response = web.Response(status=303, headers={"Location": "/"})
        if self._token is not None:
            if not hmac.compare_digest(request.query["token"].encode(errors="replace"), self._token):
                raise web.HTTPUnauthorized(
                    text="That is not the token of this Hermes: `platforms.web.token`."
                )
            response.set_cookie(
                self._cookie_name(),
                _cookie_value(self._token),
                max_age=_YEAR,
                httponly=True,
                samesite="Strict",
                secure=request.secure,
            )
        return response

    def _admits(self, request: web.Request, token: bytes) -> bool:
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(errors="replace"), token):
            return True
        cookie = request.cookies.get(self._cookie_name(), "")
        return hmac.compare_digest(cookie.encode(errors="replace"), _cookie_value(token).encode())

    def _cookie_name(self) -> str:
        """Cookies know no ports; with the port in its name, two Hermes on one machine stay signed in."""
        return f"hermes_{self._port()}"


def _cookie_value(token: bytes) -> str:
    """Not the token itself: every server on the same host is sent this cookie."""
    return hmac.new(token, b"hermes web chat", hashlib.sha256).hexdigest()


def _is_ours(named: str, host: str, port: int) -> bool:
    """A foreign name that was pointed at this machine (DNS rebinding) is neither loopback nor our host."""
    try:
        parts = urlsplit(f"//{named}")
        name, named_port = parts.hostname or "", parts.port or 80
    except ValueError:
        return False
    if named_port != port:
        return False
    return name in _LOOPBACK or name == host.lower() or (_is_wildcard(host) and _is_address(name))


def _is_wildcard(host: str) -> bool:
    return _is_address(host) and ipaddress.ip_address(host).is_unspecified


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _refuse_foreign(request: web.Request, named: str) -> None:
    origin = request.headers.get("Origin")
    if origin is not None and origin.lower() not in (f"http://{named.lower()}", f"https://{named.lower()}"):
        raise web.HTTPForbidden(text="Hermes takes messages from its own page only, not from another site.")
    # A form on a foreign page cannot send JSON without asking first, and is never allowed to.
    if request.content_type != "application/json":
        raise web.HTTPUnsupportedMediaType(text="Send JSON, with `Content-Type: application/json`.")
