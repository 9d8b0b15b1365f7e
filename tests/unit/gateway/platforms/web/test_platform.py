"""Starting and stopping the web chat."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.errors import CannotListen, PortTaken
from gateway.platforms.base import Platform
from tests.support.gateways import make_web, serving
from tests.support.web_harness import WebHarness


async def test_it_is_a_platform_and_says_where(harness: WebHarness) -> None:
    """With port 0 the address holds the real port once it has started."""
    platform: Platform = harness.web
    assert platform.name == "web"
    assert platform.where.startswith("http://127.0.0.1:")
    assert not platform.where.endswith(":0")


@pytest.mark.parametrize(
    ("host", "where"),
    [
        ("0.0.0.0", "http://127.0.0.1:9"),
        ("::", "http://[::1]:9"),
        ("::1", "http://[::1]:9"),
        ("box.lan", "http://box.lan:9"),
    ],
)
async def test_where_is_an_address_a_person_can_open(harness: WebHarness, host: str, where: str) -> None:
    """A wildcard cannot be opened in a browser, and IPv6 needs brackets."""
    assert (await make_web(harness.gateway, host=host, port=9)).where == where


async def test_a_taken_port_is_an_error_that_says_what_to_do(harness: WebHarness) -> None:
    """The sentence names the port and the setting; what was begun is cleaned up."""
    port = int(harness.url.rpartition(":")[2])
    with pytest.raises(PortTaken, match=f"platforms.web.port.*{port}"):
        await (await make_web(harness.gateway, port=port)).start()


async def test_an_address_that_is_not_ours_is_an_error(harness: WebHarness) -> None:
    """A documentation address, which no machine has."""
    with pytest.raises(CannotListen, match=r"platforms\.web\.host.*192\.0\.2\.1"):
        await (await make_web(harness.gateway, host="192.0.2.1")).start()


async def test_the_port_is_free_again_after_stop(harness: WebHarness) -> None:
    """A restart does not have to wait."""
    port = int(harness.url.rpartition(":")[2])
    await harness.web.stop()
    async with serving(harness.gateway, port=port) as web:
        assert web.where == harness.url
    await web.stop()


async def test_on_a_wildcard_any_numeric_address_is_ours(harness: WebHarness, tmp_path: Path) -> None:
    """Numbers cannot be rebound; names still can, and stay refused."""
    web = await make_web(harness.gateway, host="0.0.0.0", token="t")
    await web.start()
    port = web.where.rpartition(":")[2]
    for host, status in (("192.168.1.7", 200), ("evil.example", 403)):
        async with harness.http.get(f"{web.where}/healthz", headers={"Host": f"{host}:{port}"}) as response:
            assert response.status == status
    await web.stop()
