"""Who has the second token may look at the dashboard and change nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from gateway.config.schema import Config
from gateway.store.sqlite.store import SqliteStore
from tests.support.gateways import serving
from tests.support.web_harness import Script, WebHarness, web_gateway

OWNER, READER = "owner-token-of-16-chars", "reader-token-of-16-chars"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[WebHarness]:
    store = await SqliteStore.open(tmp_path / "state.db")
    script = Script()
    gateway = web_gateway(store, script, tmp_path)
    async with (
        serving(gateway, token=OWNER, read_token=READER) as web,
        aiohttp.ClientSession() as http,
    ):
        yield WebHarness(script, store, gateway, web, http)
        await gateway.close()
    await store.close()


async def test_a_reader_looks(guarded: WebHarness) -> None:
    """At the dashboard, which offers no way to the chat."""
    status, page = await guarded.get("/dashboard", headers=bearer(READER))
    assert status == 200
    assert "Overview" in page and ">Chat<" not in page
    _, owners = await guarded.get("/dashboard", headers=bearer(OWNER))
    assert ">Chat<" in owners


@pytest.mark.parametrize("path", ["/", "/new", "/api/conversations", "/dashboards"])
async def test_a_reader_sees_nothing_else(guarded: WebHarness, path: str) -> None:
    """Neither the chat nor its API."""
    status, _ = await guarded.get(path, headers=bearer(READER))
    assert status == 403


async def test_a_reader_changes_nothing(guarded: WebHarness) -> None:
    """For every address."""
    for path in ("/api/conversations", "/dashboard", "/api/dashboard/parked"):
        status, said = await guarded.post(path, {"platform": "web"}, headers=bearer(READER))
        assert status == 403, (path, said)


async def test_a_reader_signs_in(guarded: WebHarness) -> None:
    """By the same form, and is led to the dashboard."""
    form = {"token": READER}
    async with guarded.http.post(f"{guarded.url}/sign-in", data=form, allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (303, "/dashboard")
        cookies = {name: cookie.value for name, cookie in response.cookies.items()}
    assert READER not in str(cookies)
    assert (await guarded.get("/dashboard", cookies=cookies))[0] == 200
    assert (await guarded.get("/new", cookies=cookies))[0] == 403


async def test_a_wrong_token(guarded: WebHarness) -> None:
    """Sees neither."""
    for headers in ({}, bearer("wrong"), bearer(READER[:-1])):
        assert (await guarded.get("/dashboard", headers=headers))[0] == 401


def test_a_second_token_needs_a_first() -> None:
    """Without a token, every visitor would be the owner."""
    for web in ({"read_token": READER}, {"token": READER, "read_token": READER}):
        with pytest.raises(ValueError, match=r"platforms\.web\.token"):
            Config.model_validate({"platforms": {"web": web}})


async def test_a_reader_is_not_locked_in(guarded: WebHarness) -> None:
    """What is refused leads back to the dashboard, or to another token; the page that asks for one is always there."""
    status, page = await guarded.get("/", headers=bearer(READER))
    assert status == 403
    assert 'href="/dashboard"' in page and 'name="token"' in page and 'href="/"' not in page
    _, asks = await guarded.get("/sign-in", headers=bearer(READER))
    assert 'name="token"' in asks


async def test_signing_out(guarded: WebHarness) -> None:
    """Whoever came in can leave, from the dashboard and from the chat; the cookie is taken back."""
    for token, paths in ((READER, ["/dashboard"]), (OWNER, ["/dashboard", "/new"])):
        for path in paths:
            _, page = await guarded.get(path, headers=bearer(token))
            assert '<form class="sign-out" action="/sign-out" method="post">' in page, path
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    async with guarded.http.post(
        f"{guarded.url}/sign-out", data=b"", headers=form, allow_redirects=False
    ) as left:
        assert (left.status, left.headers["Location"]) == (303, "/sign-in")
        assert "Max-Age=0" in left.headers["Set-Cookie"] and "hermes_" in left.headers["Set-Cookie"]
    foreign = {**form, "Origin": "https://evil.example"}
    async with guarded.http.post(f"{guarded.url}/sign-out", data=b"", headers=foreign) as refused:
        assert refused.status == 403 and "Set-Cookie" not in refused.headers
