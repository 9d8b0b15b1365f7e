"""What keeps other people's pages out: where a request says it comes from, a token, and headers.

A browser carries a foreign page's requests to this machine, so loopback alone protects nothing. What a proxy may have
noted about a request (`Forwarded`, `X-Forwarded-...`) is never read: anybody could have written it.
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

from gateway.platforms.clients import REQUEST_SECONDS, read_in_time
from gateway.store.ports import Access

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_OPEN_TO_ALL = ("/healthz", "/readyz", "/static/")
"""Says nothing about anybody; the page that asks for the token needs its style."""

_SIGN_IN, _SIGN_OUT = "/sign-in", "/sign-out"
_OPEN_TO_READERS = ("/dashboard", "/metrics")
_READER = web.RequestKey("reader", bool)
_LONGEST_FORM = 10_000
_YEAR = 365 * 24 * 3600

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Other sites learn nothing. Not `no-referrer`: under it, browsers leave our own origin out of a form, too.
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_ASKS = "This Hermes is protected by a token. It is in the `hermes.yaml` of whoever runs it."
_ANOTHER_SITE = "Hermes answers its own page only, not one of another site."


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
        if not _is_from_our_page(request):
            raise web.HTTPForbidden(text=_ANOTHER_SITE)
        if request.method not in ("GET", "HEAD"):
            _refuse_foreign(request, named)
        return await handler(request)

    return middleware


def may_act(request: web.Request) -> bool:
    """Whether whoever asks is the owner, and not somebody who may only look."""
    return not request.get(_READER, False)


class TokenGate:
    """Asks for the token, if there is one: as `Authorization: Bearer`, or once, by the form, for a cookie. Never in an
    address: those are kept, by browsers and by whatever stands between. Whoever has `read_token` sees the dashboard and
    changes nothing."""

    def __init__(
        self,
        token: str | None,
        port: Callable[[], int],
        access: Access,
        *,
        read_token: str | None = None,
        request_seconds: float = REQUEST_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._token = token.encode() if token else None
        self._read_token = read_token.encode() if read_token else None
        self._port = port
        self._access = access
        self._signed_out: set[str] = set()
        self._request_seconds = request_seconds
        self._clock = clock

    async def load(self, app: web.Application) -> None:
        """Before the first request: cookies that were signed out stay so."""
        self._signed_out = await self._access.sign_outs()

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path == _SIGN_IN and request.method == "POST":
            return self._sign_in(request, await _token_in_form(request, self._request_seconds))
        if request.path == _SIGN_OUT and request.method == "POST":
            return await self._sign_out(request)
        if request.path == _SIGN_IN:
            return self._ask()
        if self._token is None or request.path.startswith(_OPEN_TO_ALL) or self._admits(request, self._token):
            return await handler(request)
        if self._read_token is not None and self._admits(request, self._read_token):
            return await self._let_look(request, handler)
        raise web.HTTPUnauthorized(text=_ASKS)

    async def _let_look(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        request[_READER] = True
        if request.method not in ("GET", "HEAD") or not _is_under(request.path, _OPEN_TO_READERS):
            raise web.HTTPForbidden(text="This token may look at the dashboard, and do nothing else.")
        return await handler(request)

    def _ask(self) -> web.Response:
        """Whoever is signed in may sign in as somebody else."""
        if self._token is None:
            return _led_to("/")
        raise web.HTTPUnauthorized(text=_ASKS)

    async def _sign_out(self, request: web.Request) -> web.Response:
        """A copy of the cookie is worthless afterwards, too. Only a cookie of ours is noted."""
        given = request.cookies.get(self._cookie_name(), "")
        if any(self._is_cookie_for(token, given) for token in (self._token, self._read_token) if token):
            now = self._clock()
            await self._access.add_sign_out(_digest(given), until=now + _YEAR, now=now)
            self._signed_out.add(_digest(given))
        response = _led_to(_SIGN_IN)
        response.del_cookie(self._cookie_name(), httponly=True, samesite="Strict")
        return response

    def _sign_in(self, request: web.Request, given: str) -> web.Response:
        """Redirects, so that a reload does not send the token again."""
        if self._token is None:
            return _led_to("/")
        token = self._token_like(given.encode(errors="replace"))
        response = _led_to("/dashboard" if token is self._read_token else "/")
        response.set_cookie(
            self._cookie_name(),
            _new_cookie(token, self._clock()),
            max_age=_YEAR,
            httponly=True,
            samesite="Strict",
            secure=request.secure,
        )
        return response

    def _token_like(self, given: bytes) -> bytes:
        for token in (self._token, self._read_token):
            if token is not None and hmac.compare_digest(given, token):
                return token
        raise web.HTTPUnauthorized(
            text="That is not the token. It is in the `hermes.yaml` of whoever runs this Hermes."
        )

    def _admits(self, request: web.Request, token: bytes) -> bool:
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(errors="replace"), token):
            return True
        return self._is_cookie_for(token, request.cookies.get(self._cookie_name(), ""))

    def _is_cookie_for(self, token: bytes, given: str) -> bool:
        """Whether it was made from this token, within a year, and was not signed out."""
        id_, _, _ = given.rpartition(".")
        if not hmac.compare_digest(
            given.encode(errors="replace"), _signed(token, id_).encode(errors="replace")
        ):
            return False
        made_at = float(id_.partition(".")[0])
        return self._clock() - made_at < _YEAR and _digest(given) not in self._signed_out

    def _cookie_name(self) -> str:
        """Cookies know no ports; with the port in its name, two Hermes on one machine stay signed in."""
        return f"hermes_{self._port()}"


def _led_to(where: str) -> web.Response:
    return web.Response(status=303, headers={"Location": where})


def _is_under(path: str, places: Iterable[str]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def is_open_to_others(addresses: Iterable[tuple[Any, ...]]) -> bool:
    """Whether any of the addresses that a server listens on can be reached from another machine."""
    return not all(ipaddress.ip_address(address[0].partition("%")[0]).is_loopback for address in addresses)


async def _token_in_form(request: web.Request, seconds: float) -> str:
    length = request.content_length or 0
    if length > _LONGEST_FORM:
        raise web.HTTPRequestEntityTooLarge(_LONGEST_FORM, length)
    form = await read_in_time(request.clone(client_max_size=_LONGEST_FORM), seconds)
    return parse_qs(form.decode(errors="replace")).get("token", [""])[0]


def _new_cookie(token: bytes, now: float) -> str:
    """Each browser has one of its own, so that signing out concerns no other."""
    return _signed(token, f"{int(now)}.{secrets.token_hex(16)}")


def _signed(token: bytes, id_: str) -> str:
    """Not the token itself: every server on the same host is sent this cookie."""
    mac = hmac.new(token, b"hermes web chat " + id_.encode(errors="replace"), hashlib.sha256).hexdigest()
    return f"{id_}.{mac}"


def _digest(cookie: str) -> str:
    """What is stored of a cookie: who reads the database cannot sign in with it."""
    return hashlib.sha256(cookie.encode(errors="replace")).hexdigest()


def _is_ours(named: str, host: str, port: int) -> bool:
    """A foreign name that was pointed at this machine (DNS rebinding) is neither loopback nor our host."""
    try:
        parts = urlsplit(f"//{named}")
        name, named_port = parts.hostname or "", parts.port or 80
    except ValueError:
        return False
    if named_port != port or parts.netloc != named or parts.username is not None:
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


def _is_from_our_page(request: web.Request) -> bool:
    """Browsers say in these headers whose page a request comes from, and scripts cannot change them. Another site may
    lead a person here by a link, and that is all: not load our files, not frame us, not listen to a stream. Programs,
    and browsers that speak to another machine without encryption, send no such header."""
    site = request.headers.get("Sec-Fetch-Site", "none")
    if site in ("same-origin", "none"):
        return True
    is_a_visit = (
        request.headers.get("Sec-Fetch-Mode") == "navigate"
        and request.headers.get("Sec-Fetch-Dest") == "document"
        and request.method == "GET"
    )
    return is_a_visit and not request.path.startswith("/api/")


def _refuse_foreign(request: web.Request, named: str) -> None:
    origin = request.headers.get("Origin")
    if origin is not None and origin.lower() not in (f"http://{named.lower()}", f"https://{named.lower()}"):
        raise web.HTTPForbidden(text=_ANOTHER_SITE)
    # A form on a foreign page cannot send JSON without asking first, and is never allowed to. The forms that work
    # without scripts are the exception: who knows the token may come in, and whoever is in may leave.
    is_form = request.path in (_SIGN_IN, _SIGN_OUT)
    wanted = "application/x-www-form-urlencoded" if is_form else "application/json"
    if request.content_type != wanted:
        raise web.HTTPUnsupportedMediaType(text=f"Send it with `Content-Type: {wanted}`.")
