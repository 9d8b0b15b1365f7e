"""Fetches pages from the public internet only: a URL must not lead into this machine or its network.

The resolver refuses every address that is not public, and each socket is checked again when it is made. That covers
literals, odd spellings of numbers, redirects, and names that change their address between two look-ups.
"""

from __future__ import annotations

import asyncio
import codecs
import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from agent.errors import ToolError

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
# Not public in fact, though Python's tables (of some versions) say so.
_NEVER: tuple[IPNetwork, ...] = tuple(
    ipaddress.ip_network(network)
    for network in (
        "100.64.0.0/10",  # carrier-grade NAT, and a cloud's metadata service
        "168.63.129.16/32",  # a cloud's internal service under a public number
        "192.0.0.0/24",  # protocol assignments
        "192.88.99.0/24",  # 6to4 relays
        "2001::/23",  # protocol assignments, Teredo among them: carries an IPv4 address
        "2002::/16",  # 6to4: carries an IPv4 address
        "3fff::/20",  # documentation
    )
)

_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = {
    "User-Agent": "Hermes (+fetch_url)",
    "Accept": "text/html,text/plain,application/json,application/xml;q=0.9,*/*;q=0.1",
}
# Decoding some of these takes quadratic time, and no page needs one.
_NOT_CHARSETS = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "utf-7", "undefined"})


class AddressRefused(OSError):
    """An address that is not public. An OSError, because that is what travels through aiohttp unharmed."""


def is_public(address: IPAddress) -> bool:
    """Return whether an address is on the internet. One that carries an IPv4 address is judged by that."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
        if address not in _GLOBAL_UNICAST:
            return False
    if any(address in network for network in _NEVER if network.version == address.version):
        return False
    # is_global alone says yes to multicast.
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


class CheckedResolver(AbstractResolver):
    """Resolves names and refuses addresses that are not public, except those in `allow`."""

    def __init__(self, resolver: AbstractResolver | None = None, *, allow: Iterable[str] = ()) -> None:
        self._resolver = resolver
        self._allow: tuple[IPNetwork, ...] = tuple(ipaddress.ip_network(network) for network in allow)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        # Made here, because it belongs to the running event loop.
        resolver = self._resolver or aiohttp.ThreadedResolver()
        answers = await resolver.resolve(host, port, family)
        for answer in answers:
            self.check(answer["host"])
        return answers

    def check(self, host: str) -> None:
        """Raises AddressRefused unless this is a literal address that may be reached."""
        try:
            address = ipaddress.ip_address(host)
        except ValueError as exc:
            raise AddressRefused(f"{host} is not an address") from exc
        allowed = any(address in network for network in self._allow if network.version == address.version)
        if not allowed and not is_public(address):
            raise AddressRefused(f"{host} is not public")

    def open_socket(self, address_info: tuple[Any, ...]) -> socket.socket:
        """Open the socket of every connection, with the very address that it connects to."""
        family, kind, protocol, _, address = address_info
        self.check(address[0])
        return socket.socket(family=family, type=kind, proto=protocol)

    async def close(self) -> None:
        if self._resolver is not None:
            await self._resolver.close()


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a URL."""

    url: str
    """The URL after all redirects."""
    status: int
    content_type: str
    text: str
    complete: bool
    """False if it was larger than what is read."""


class Fetcher:
    """Gets text from the web, bounded in time and size."""

    def __init__(
        self, resolver: CheckedResolver | None = None, *, max_bytes: int = 2_000_000, seconds: float = 20.0
    ) -> None:
        self._resolver = resolver or CheckedResolver()
        self._max_bytes = max_bytes
        self._seconds = seconds

    async def get(self, url: str) -> Page:
        """Raises ToolError with a sentence for everything that can go wrong."""
        try:
            async with asyncio.timeout(self._seconds), self._session() as session:
                return await self._follow(session, _parse(url))
        except TimeoutError as exc:
            raise ToolError(f"{url} did not answer within {self._seconds:g} s.") from exc
        except aiohttp.InvalidURL as exc:
            raise ToolError(f"`{url}`, or where it redirects to, is not a valid URL.") from exc
        except aiohttp.ClientConnectorError as exc:
            if isinstance(exc.os_error, AddressRefused):
                raise ToolError(
                    f"{exc.host} is not on the public internet; only public pages are fetched."
                ) from exc
            raise ToolError(f"{exc.host} cannot be reached.") from exc
        except aiohttp.ClientError as exc:
            raise ToolError(f"{url} did not give a proper answer ({type(exc).__name__}).") from exc

    def _session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=self._resolver,
            socket_factory=self._resolver.open_socket,
            use_dns_cache=False,
            force_close=True,
        )
        # No cookies, no proxies from the environment: nothing of this machine goes along.
        return aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), headers=_HEADERS, trust_env=False
        )

    async def _follow(self, session: aiohttp.ClientSession, url: URL) -> Page:
        for _ in range(_MAX_REDIRECTS + 1):
            async with session.get(url, allow_redirects=False) as response:
                target = response.headers.get("Location")
                if response.status not in _REDIRECTS or target is None:
                    return await self._read(response)
                url = _parse(target, str(url))
        raise ToolError(f"more than {_MAX_REDIRECTS} redirects; the last one led to {url}.")

    async def _read(self, response: aiohttp.ClientResponse) -> Page:
        kind = response.content_type
        main, _, sub = kind.partition("/")
        if not (main == "text" or sub in ("json", "xml", "javascript") or sub.endswith(("+json", "+xml"))):
            raise ToolError(f"{response.url} is {kind}, not text.")
        data = bytearray()
        async for chunk in response.content.iter_chunked(65_536):
            data += chunk
            if len(data) > self._max_bytes:
                break
        text = bytes(data[: self._max_bytes]).decode(_charset(response), errors="replace")
        return Page(str(response.url), response.status, kind, text, complete=len(data) <= self._max_bytes)


def _parse(text: str, base: str = "") -> URL:
    try:
        url = URL(urljoin(base, text.strip()))
    except ValueError as exc:
        raise ToolError(f"`{text}` is not a valid URL.") from exc
    if url.scheme not in ("http", "https") or not url.host:
        raise ToolError(f"`{text}` is not a web address; it must begin with http:// or https://.")
    if url.user is not None or url.password is not None:
        raise ToolError("addresses with a user name or a password are not fetched.")
    return url


def _charset(response: aiohttp.ClientResponse) -> str:
    name = response.charset or "utf-8"
    try:
        known = codecs.lookup(name).name.replace("_", "-")
        "".encode(known)
    except (LookupError, UnicodeError):
        return "utf-8"
    return "utf-8" if known in _NOT_CHARSETS else known
