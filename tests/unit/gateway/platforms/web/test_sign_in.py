"""Coming in by the token: what is set, where the token never stays, and whose form is not listened to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import aiohttp
import pytest

from gateway.store.sqlite.store import SqliteStore
from tests.support.web_harness import WebHarness, web_harness

TOKEN = "tökén with spaces & 100 %"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[WebHarness]:
    """A web chat that asks for a token."""
    async with web_harness(tmp_path, token=TOKEN) as harness:
        yield harness


async def _sign_in(
    harness: WebHarness, token: str, **headers: str
) -> tuple[int, str, aiohttp.typedefs.LooseHeaders]:
    how: dict[str, Any] = {"allow_redirects": False, "headers": headers}
    async with harness.http.post(f"{harness.url}/sign-in", data={"token": token}, **how) as response:
        return response.status, await response.text(), response.headers


async def test_the_token_is_changed_for_a_cookie(guarded: WebHarness) -> None:
    """The token is in no address afterwards; the cookie is another word, hidden from scripts, and enough."""
    status, _, headers = await _sign_in(guarded, TOKEN)
    assert (status, headers["Location"]) == (303, "/")
    cookie, *attributes = headers["Set-Cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes)
    assert not any(attribute.startswith("Domain") for attribute in attributes)
    assert TOKEN not in cookie and urlencode({"": TOKEN})[1:] not in cookie
    assert (await guarded.get("/api/conversations"))[0] == 401
    assert await guarded.get("/api/conversations", headers={"Cookie": cookie}) == (200, [])


@pytest.mark.parametrize("wrong", ["guess", "", TOKEN + "x", TOKEN[:-1], TOKEN.upper()])
async def test_a_wrong_token_sets_nothing(guarded: WebHarness, wrong: str) -> None:
    """The person is told, and may try again."""
    status, page, headers = await _sign_in(guarded, wrong)
    assert status == 401
    assert "Set-Cookie" not in headers
    assert "token is wrong" in page and 'name="token"' in page
    assert 'role="alert"' in page and "platforms.web.token" not in page
    assert wrong not in ("guess",) or wrong not in page


async def test_the_form_puts_the_token_into_no_address(guarded: WebHarness) -> None:
    """Browsers and proxies store URLs."""
    _, page = await guarded.get("/new")
    assert '<form action="/sign-in" method="post">' in page


async def test_a_token_in_an_address_signs_nobody_in(guarded: WebHarness) -> None:
    """Nobody gets used to writing it there."""
    address = f"{guarded.url}/"
    async with guarded.http.get(address, params={"token": TOKEN}, allow_redirects=False) as response:
        assert response.status == 401
        assert "Set-Cookie" not in response.headers


async def test_a_cookie_that_is_not_text(guarded: WebHarness) -> None:
    """Refused like any other wrong one."""
    where = urlsplit(guarded.url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    head = f"GET /api/conversations HTTP/1.1\r\nHost: {where.netloc}\r\nCookie: hermes_{where.port}="
    writer.write(head.encode() + b"\xff.x\r\n\r\n")
    try:
        async with asyncio.timeout(30):
            assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
    finally:
        writer.close()


async def test_where_no_token_is_asked_for(harness: WebHarness) -> None:
    """A form that was open before the token was removed from the configuration leads to the page."""
    status, _, headers = await _sign_in(harness, "old")
    assert (status, headers["Location"]) == (303, "/")
    assert "Set-Cookie" not in headers
    async with harness.http.get(f"{harness.url}/sign-in", allow_redirects=False) as asked:
        assert (asked.status, asked.headers["Location"]) == (303, "/")
    assert "Sign out" not in (await harness.get("/new"))[1]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Content-Type": "application/json"}, 415),
        ({"Content-Type": "text/plain"}, 415),
    ],
)
async def test_the_form_of_another_site(guarded: WebHarness, headers: dict[str, str], status: int) -> None:
    """The sign-in fails even with the right token."""
    given = {**FORM, **headers}
    data = urlencode({"token": TOKEN}).encode()
    async with guarded.http.post(f"{guarded.url}/sign-in", data=data, headers=given) as response:
        assert response.status == status
        assert "Set-Cookie" not in response.headers


async def test_a_form_that_is_too_long(guarded: WebHarness) -> None:
    """A client without a session cannot keep Hermes busy."""
    async with guarded.http.post(f"{guarded.url}/sign-in", data=b"a&" * 6_000, headers=FORM) as response:
        assert response.status == 413


@pytest.mark.parametrize("cookie", ["", "{token}", "0" * 64, "größer"])
async def test_a_forged_cookie(guarded: WebHarness, cookie: str) -> None:
    """Neither the token itself nor something of the right length."""
    port = guarded.url.rpartition(":")[2]
    forged = f"hermes_{port}={cookie.format(token='token')}"
    status, _ = await guarded.get("/api/conversations", headers={"Cookie": forged})
    assert status == 401


async def test_a_new_token_signs_everybody_out(tmp_path: Path) -> None:
    """The cookie is worth nothing without the token it was made from."""
    async with web_harness(tmp_path, token="first") as before:
        _, _, headers = await _sign_in(before, "first")
        port = int(before.url.rpartition(":")[2])
    cookie = headers["Set-Cookie"].split("; ")[0]
    async with web_harness(tmp_path, token="second", port=port) as after:
        assert (await after.get("/api/conversations", headers={"Cookie": cookie}))[0] == 401


async def test_the_token_is_in_no_log(guarded: WebHarness, caplog: pytest.LogCaptureFixture) -> None:
    """At any level, right or wrong; nor is one that somebody writes into the address."""
    caplog.set_level(logging.DEBUG)
    for token in (TOKEN, "a-wrong-guess"):
        await guarded.get("/?" + urlencode({"token": token}))
        await _sign_in(guarded, token)
    await asyncio.sleep(0)
    assert "guess" not in caplog.text and "spaces" not in caplog.text


async def test_a_copied_cookie_is_worthless_after_signing_out(tmp_path: Path) -> None:
    """Also after a restart; another browser stays signed in."""
    database = tmp_path / "state.db"
    async with web_harness(tmp_path, token=TOKEN, store=await SqliteStore.open(database)) as harness:
        mine, other = [(await _sign_in(harness, TOKEN))[2]["Set-Cookie"].split("; ")[0] for _ in range(2)]
        assert mine != other
        headers = {**FORM, "Cookie": mine}
        async with harness.http.post(
            f"{harness.url}/sign-out", headers=headers, allow_redirects=False
        ) as response:
            assert response.status == 303
        assert await _statuses(harness, mine, other) == [401, 200]
        port = int(harness.url.rpartition(":")[2])
    async with web_harness(tmp_path, token=TOKEN, store=await SqliteStore.open(database), port=port) as again:
        assert await _statuses(again, mine, other) == [401, 200]


async def test_signing_out_notes_only_cookies_of_ours(tmp_path: Path) -> None:
    """Otherwise strangers could fill the database."""
    store = await SqliteStore.open(tmp_path / "state.db")
    async with web_harness(tmp_path, token=TOKEN, store=store) as harness:
        port = harness.url.rpartition(":")[2]
        for made_up in ("x", "1.2.3", f"{2**40}.00.{'0' * 64}", "nan.x." + "0" * 64):
            headers = {**FORM, "Cookie": f"hermes_{port}={made_up}"}
            async with harness.http.post(
                f"{harness.url}/sign-out", headers=headers, allow_redirects=False
            ) as response:
                assert response.status == 303
        assert await store.access.sign_outs() == set()


async def _statuses(harness: WebHarness, *cookies: str) -> list[int]:
    return [(await harness.get("/api/conversations", headers={"Cookie": each}))[0] for each in cookies]
