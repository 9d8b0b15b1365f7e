"""Where the chat page listens, under which names it answers, and which pages it answers to. All over real sockets."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from gateway.config.schema_platforms import WebConfig
from gateway.errors import OpenWithoutToken
from gateway.platforms.web.platform import WebPlatform
from gateway.platforms.web.security import is_publicly_reachable, same_origin_middleware
from tests.support.gateways import make_web
from tests.support.web_harness import WebHarness

NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6 loopback")


@asynccontextmanager
async def listening(harness: WebHarness, host: str, token: str | None = None) -> AsyncIterator[WebPlatform]:
    platform = await make_web(harness.gateway, host=host, token=token)
    await platform.start()
    try:
        yield platform
    finally:
        await platform.stop()


async def _status(harness: WebHarness, url: str, **headers: str) -> int:
    async with harness.http.get(url, headers=headers, allow_redirects=False) as response:
        return response.status


def test_by_default_only_this_machine() -> None:
    """Nothing needs to be set for that."""
    assert (WebConfig().host, WebConfig().token) == ("127.0.0.1", None)


@pytest.mark.parametrize("host", ["0.0.0.0", pytest.param("::", marks=needs_ipv6)])
async def test_nobody_else_without_a_token(harness: WebHarness, host: str) -> None:
    """Whatever the settings let pass, the server itself does not start, and its port is closed again."""
    platform = await make_web(harness.gateway, host=host)
    with pytest.raises(OpenWithoutToken, match=r"platforms\.web\.token"):
        await platform.start()
    assert platform.health.state == "starting"
    async with listening(harness, host, token="sixteen-or-more-") as guarded:
        assert await _status(harness, f"{guarded.where}/api/conversations") == 401


@pytest.mark.parametrize(
    ("addresses", "is_open"),
    [
        ([("127.0.0.1", 1)], False),
        ([("127.0.0.1", 1), ("::1", 1, 0, 0)], False),
        ([("127.0.0.1", 1), ("192.0.2.7", 1)], True),
        ([("fe80::1%eth0", 1, 0, 2)], True),
        ([("::", 1, 0, 0)], True),
    ],
)
def test_which_addresses_others_can_reach(addresses: list[tuple[Any, ...]], is_open: bool) -> None:
    """A name can stand for several; one that is not loopback is enough."""
    assert is_publicly_reachable(addresses) is is_open


@pytest.mark.parametrize("host", ["localhost", pytest.param("::1", marks=needs_ipv6)])
async def test_other_spellings_of_this_machine(harness: WebHarness, host: str) -> None:
    """They need no token, and a foreign name pointed at them is refused there, too."""
    async with listening(harness, host) as platform:
        port = platform.where.rpartition(":")[2]
        assert await _status(harness, f"{platform.where}/healthz") == 200
        assert await _status(harness, f"{platform.where}/healthz", Host=f"evil.example:{port}") == 403


@needs_ipv6
async def test_an_ipv6_wildcard(harness: WebHarness) -> None:
    """Any number is an address of this machine; names can be rebound."""
    async with listening(harness, "::", token="sixteen-or-more-") as platform:
        port = platform.where.rpartition(":")[2]
        url = f"http://[::1]:{port}/healthz"
        hosts = {"[fd00::7]": 200, "192.168.1.7": 200, "localhost": 200, "evil.example": 403, "[::7": 403}
        for host, status in hosts.items():
            assert await _status(harness, url, Host=f"{host}:{port}") == status, host


@pytest.mark.parametrize(
    ("named", "status"),
    [
        ("box.lan:{port}", 200),
        ("BOX.lan:{port}", 200),
        ("127.0.0.1:{port}", 200),
        ("box.lan.evil.example:{port}", 403),
        ("evil.example:{port}", 403),
        ("box.lan", 403),
        ("user@box.lan:{port}", 403),
    ],
)
async def test_a_host_by_name(harness: WebHarness, named: str, status: int) -> None:
    """Hermes answers under the name that was configured, and under no other that leads to the same address."""

    async def hello(request: web.Request) -> web.Response:
        return web.Response()

    app = web.Application(middlewares=[same_origin_middleware("box.lan", lambda: port)])
    app.router.add_get("/", hello)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    assert await _status(harness, f"http://127.0.0.1:{port}/", Host=named.format(port=port)) == status
    await runner.cleanup()


@pytest.mark.parametrize("name", ["X-Forwarded-Host", "X-Original-Host", "Forwarded", "X-Forwarded-Proto"])
async def test_forwarded_headers_change_nothing(harness: WebHarness, name: str) -> None:
    """Clients can forge them: they neither make a foreign name ours nor ours a foreign one."""
    port = harness.url.rpartition(":")[2]
    ours, foreign = f"127.0.0.1:{port}", f"evil.example:{port}"
    said = {"Forwarded": f"host={ours};proto=https", "X-Forwarded-Proto": "https"}.get(name, ours)
    assert await _status(harness, f"{harness.url}/healthz", Host=foreign, **{name: said}) == 403
    headers = {name: said.replace(ours, foreign)}
    async with harness.http.get(harness.url, headers=headers, allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (303, "/new")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "nonsense"])
@pytest.mark.parametrize("path", ["/new", "/api/conversations", "/static/chat.js", "/healthz", "/c/any/live"])
async def test_another_site_loads_nothing(harness: WebHarness, site: str, path: str) -> None:
    """No file, no data, no frame, no stream; `same-site` is another program on this machine."""
    for mode, destination in (("no-cors", "script"), ("navigate", "iframe"), ("cors", "empty")):
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": destination}
        assert await _status(harness, harness.url + path, **headers) == 403, headers


async def test_another_site_may_link_here(harness: WebHarness) -> None:
    """A person who follows a link sees the page; the data behind it is not led to, and nothing is sent that way."""
    foreign = {"Sec-Fetch-Site": "cross-site", **NAVIGATION}
    assert await _status(harness, f"{harness.url}/new", **foreign) == 200
    assert await _status(harness, f"{harness.url}/api/conversations", **foreign) == 403
    status, _ = await harness.post("/api/conversations", {"platform": "web"}, headers=foreign)
    assert status == 403


@pytest.mark.parametrize("site", ["same-origin", "none"])
async def test_our_own_page_and_the_address_bar(harness: WebHarness, site: str) -> None:
    """What the page fetches, and what a person types."""
    assert await _status(harness, f"{harness.url}/api/conversations", **{"Sec-Fetch-Site": site}) == 200


async def test_no_other_site_is_ever_allowed(harness: WebHarness) -> None:
    """The question that a browser asks before it sends JSON from another site is not answered with yes."""
    asking = {
        "Origin": "https://evil.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    async with harness.http.options(f"{harness.url}/api/conversations", headers=asking) as response:
        assert response.status == 403
        assert not any(name.startswith("Access-Control-") for name in response.headers)
