"""Protection of the web server: origin checks, tokens and cookies, security headers.

A browser sends requests of foreign pages to this machine, so listening on loopback protects nothing by itself. Proxy
headers (`Forwarded`, `X-Forwarded-...`) are never read: any client can write them.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from gateway.platforms.clients import REQUEST_SECONDS, read_body
from gateway.store.access import Access

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_PUBLIC_PATHS = ("/healthz", "/readyz", "/static/")
"""Paths without private data; the sign-in page needs its style sheet."""

_SIGN_IN, _SIGN_OUT = "/sign-in", "/sign-out"
_READER_PATHS = ("/dashboard/", "/metrics/")
_READER = web.RequestKey("reader", bool)
_MAX_FORM = 10_000
_YEAR = 365 * 24 * 3600

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Not `no-referrer`: with it, browsers omit the origin of our own forms.
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_SIGN_IN_NEEDED = "This Hermes needs a token. The token is in the `hermes.yaml` of the person who runs it."
_SIGN_IN_FAILED = "This token is wrong. The token is in the `hermes.yaml` of the person who runs this Hermes."
_FOREIGN_SITE = "Hermes accepts requests of its own pages only, not of other sites."
_UNKNOWN_HOST = "Hermes does not answer under this name; use the address it printed at the start."
_READ_ONLY = "This token can only view the dashboard."


async def add_security_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)
    # Static files are revalidated by ETag, so an upgrade shows at once; conversations are never cached.
    response.headers["Cache-Control"] = "no-cache" if request.path.startswith("/static/") else "no-store"


def same_origin_middleware(host: str, port: Callable[[], int]) -> Middleware:
    """Refuse requests for another host name (DNS rebinding) and requests of foreign pages."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        named = request.headers.get("Host", "")
        if not _is_own_host(named, host, port()):
            raise web.HTTPForbidden(text=_UNKNOWN_HOST)
        if not _is_same_site(request):
            raise web.HTTPForbidden(text=_FOREIGN_SITE)
        if request.method not in ("GET", "HEAD"):
            _check_origin_and_type(request, named)
        return await handler(request)

    return middleware


def is_owner(request: web.Request) -> bool:
    """Tell the owner from a reader, who may only view the dashboard."""
    return not request.get(_READER, False)


class TokenAuth:
    """Checks the token if one is configured: as `Authorization: Bearer`, or by the sign-in form, which sets a cookie.

    A token in a URL is not accepted: browsers and proxies store URLs. `read_token` gives a view of the dashboard only.
    """

    def __init__(
        self,
        token: str | None,
        port: Callable[[], int],
        access: Access,
        *,
        read_token: str | None = None,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._token = token.encode() if token else None
        self._read_token = read_token.encode() if read_token else None
        self._port = port
        self._access = access
        self._signed_out: set[str] = set()
        self._request_seconds = request_seconds

    async def load(self, app: web.Application) -> None:
        """Load the signed-out cookies before the first request."""
        self._signed_out = await self._access.sign_outs()

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path == _SIGN_IN and request.method == "POST":
            return self._sign_in(request, await _token_in_form(request, self._request_seconds))
        if request.path == _SIGN_OUT and request.method == "POST":
            return await self._sign_out(request)
        if request.path == _SIGN_IN and self._token is None:
            return _redirect("/")
        if request.path == _SIGN_IN:
            # The form is shown also to a person who is signed in with another token.
            raise web.HTTPUnauthorized(text=_SIGN_IN_NEEDED)
        if (
            self._token is None
            or request.path.startswith(_PUBLIC_PATHS)
            or self._is_authorized(request, self._token)
        ):
            return await handler(request)
        if self._read_token is None or not self._is_authorized(request, self._read_token):
            raise web.HTTPUnauthorized(text=_SIGN_IN_NEEDED)
        request[_READER] = True
        if request.method not in ("GET", "HEAD") or not f"{request.path}/".startswith(_READER_PATHS):
            raise web.HTTPForbidden(text=_READ_ONLY)
        return await handler(request)

    async def _sign_out(self, request: web.Request) -> web.Response:
        """Invalidate the cookie, also any copy of it. Only a valid cookie is recorded."""
        given = request.cookies.get(self._cookie_name(), "")
        if any(self._is_cookie_for(token, given) for token in (self._token, self._read_token) if token):
            now = time.time()
            await self._access.add_sign_out(_digest(given), until=now + _YEAR, now=now)
            self._signed_out.add(_digest(given))
        response = _redirect(_SIGN_IN)
        response.del_cookie(self._cookie_name(), httponly=True, samesite="Strict")
        return response

    def _sign_in(self, request: web.Request, given: str) -> web.Response:
        """Set the cookie and redirect, so that a reload does not send the token again."""
        if self._token is None:
            return _redirect("/")
        token = self._match_token(given.encode(errors="replace"))
        # A unique cookie, so that signing out affects one browser only.
        cookie = _sign(token, f"{int(time.time())}.{secrets.token_hex(16)}")
        response = _redirect("/dashboard" if token is self._read_token else "/")
        response.set_cookie(
            self._cookie_name(),
            cookie,
            max_age=_YEAR,
            httponly=True,
            samesite="Strict",
            secure=request.secure,
        )
        return response

    def _match_token(self, given: bytes) -> bytes:
        for token in (self._token, self._read_token):
            if token is not None and hmac.compare_digest(given, token):
                return token
        raise web.HTTPUnauthorized(text=_SIGN_IN_FAILED)

    def _is_authorized(self, request: web.Request, token: bytes) -> bool:
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(errors="replace"), token):
            return True
        return self._is_cookie_for(token, request.cookies.get(self._cookie_name(), ""))

    def _is_cookie_for(self, token: bytes, given: str) -> bool:
        """Check that the cookie was signed with this token within the last year and was not signed out."""
        id_, _, _ = given.rpartition(".")
        if not hmac.compare_digest(
            given.encode(errors="replace"), _sign(token, id_).encode(errors="replace")
        ):
            return False
        made_at = float(id_.partition(".")[0])
        return time.time() - made_at < _YEAR and _digest(given) not in self._signed_out

    def _cookie_name(self) -> str:
        """Include the port: cookies are shared between ports, so two gateways on one host need two names."""
        return f"hermes_{self._port()}"


def _redirect(where: str) -> web.Response:
    return web.Response(status=303, headers={"Location": where})


def is_publicly_reachable(addresses: Iterable[tuple[Any, ...]]) -> bool:
    """Check whether another machine can reach one of the addresses that a server listens on."""
    return not all(ipaddress.ip_address(address[0].partition("%")[0]).is_loopback for address in addresses)


async def _token_in_form(request: web.Request, seconds: float) -> str:
    length = request.content_length or 0
    if length > _MAX_FORM:
        raise web.HTTPRequestEntityTooLarge(_MAX_FORM, length)
    form = await read_body(request.clone(client_max_size=_MAX_FORM), seconds)
    return parse_qs(form.decode(errors="replace")).get("token", [""])[0]


def _sign(token: bytes, id_: str) -> str:
    """Sign an id with the token; the cookie never holds the token, because every server on the host receives it."""
    mac = hmac.new(token, b"hermes web chat " + id_.encode(errors="replace"), hashlib.sha256).hexdigest()
    return f"{id_}.{mac}"


def _digest(cookie: str) -> str:
    """Hash a cookie for the database, so that a reader of the database cannot sign in with it."""
    return hashlib.sha256(cookie.encode(errors="replace")).hexdigest()


def _is_own_host(named: str, host: str, port: int) -> bool:
    """Check the Host header: a foreign name that points at this machine (DNS rebinding) is refused."""
    try:
        parts = urlsplit(f"//{named}")
        name, named_port = parts.hostname or "", parts.port or 80
    except ValueError:
        return False
    if named_port != port or parts.netloc != named or parts.username is not None:
        return False
    if name in _LOOPBACK or name == host.lower():
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_unspecified and _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_same_site(request: web.Request) -> bool:
    """Check the `Sec-Fetch-*` headers, which scripts cannot change. Another site may link to a page, but not load
    files, frame a page or read a stream. Programs send no such headers, nor do browsers over plain HTTP to
    another machine."""
    site = request.headers.get("Sec-Fetch-Site", "none")
    if site in ("same-origin", "none"):
        return True
    is_navigation = (
        request.headers.get("Sec-Fetch-Mode") == "navigate"
        and request.headers.get("Sec-Fetch-Dest") == "document"
        and request.method == "GET"
    )
    return is_navigation and not request.path.startswith("/api/")


def _check_origin_and_type(request: web.Request, named: str) -> None:
    origin = request.headers.get("Origin")
    if origin is not None and origin.lower() not in (f"http://{named.lower()}", f"https://{named.lower()}"):
        raise web.HTTPForbidden(text=_FOREIGN_SITE)
    # A form of a foreign page cannot send JSON without a preflight request, which is refused. Only signing in and out
    # use forms, because they work without scripts.
    is_form = request.path in (_SIGN_IN, _SIGN_OUT)
    wanted = "application/x-www-form-urlencoded" if is_form else "application/json"
    if request.content_type != wanted:
        raise web.HTTPUnsupportedMediaType(text=f"Send it with `Content-Type: {wanted}`.")
