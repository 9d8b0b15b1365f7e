"""What a foreign page in the owner's browser, or a stranger on the network, may try."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from yarl import URL

from tests.support.web_harness import WebHarness, web_harness

TOKEN = "tökén with spaces"


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[WebHarness]:
    """A web chat that asks for a token."""
    async with web_harness(tmp_path, token=TOKEN) as harness:
        yield harness


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
async def test_loopback_names_are_ours(harness: WebHarness, name: str) -> None:
    """However a person writes the address of this machine."""
    port = harness.url.rpartition(":")[2]
    status, _ = await harness.get("/healthz", headers={"Host": f"{name}:{port}"})
    assert status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "10.0.0.1:{port}",
        "127.0.0.1.evil.example:{port}",
        "[::1",
        "",
    ],
)
async def test_a_foreign_host_is_refused(harness: WebHarness, host: str) -> None:
    """DNS rebinding: a foreign name pointed at this machine carries its own name in Host."""
    port = harness.url.rpartition(":")[2]
    for path in ("/healthz", "/new", "/api/conversations", "/static/chat.js"):
        status, _ = await harness.get(path, headers={"Host": host.format(port=port)})
        assert status == 403, path


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost:{port}", "http://[", "file://"],
)
async def test_a_foreign_origin_cannot_post(harness: WebHarness, origin: str) -> None:
    """Another site, a sandboxed frame, another program on this machine."""
    port = harness.url.rpartition(":")[2]
    headers = {"Origin": origin.format(port=port)}
    status, answer = await harness.post("/api/conversations", {"platform": "web"}, headers=headers)
    assert (status, "other sites" in answer["error"]) == (403, True)


async def test_our_own_origin_can_post(harness: WebHarness) -> None:
    """The page itself, which sends its origin, and programs, which send none."""
    body = {"platform": "web"}
    assert (await harness.post("/api/conversations", body, headers={"Origin": harness.url}))[0] == 200
    assert (await harness.post("/api/conversations", body))[0] == 200


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
async def test_only_json_can_be_posted(harness: WebHarness, content_type: str) -> None:
    """What a foreign form could send without asking the browser first."""
    headers = {"Content-Type": content_type}
    data = b'{"platform": "web"}'
    async with harness.http.post(f"{harness.url}/api/conversations", data=data, headers=headers) as response:
        assert response.status == 415


@pytest.mark.parametrize("path", ["/new", "/api/conversations", "/static/chat.js", "/nothing", "/healthz"])
async def test_every_answer_carries_the_headers(harness: WebHarness, path: str) -> None:
    """Pages, data, files and errors alike: nothing inline runs, nothing is framed or sniffed."""
    async with harness.http.get(harness.url + path) as response:
        policy = response.headers["Content-Security-Policy"]
        assert "unsafe" not in policy
        assert policy.startswith("default-src 'none'")
        assert "frame-ancestors 'none'" in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["X-Frame-Options"] == "DENY"
        assert response.headers["Referrer-Policy"] == "same-origin"
        assert "microphone=()" in response.headers["Permissions-Policy"]
        assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert response.headers["Cache-Control"] == ("no-cache" if "static" in path else "no-store")


async def test_the_event_stream_carries_the_headers_too(harness: WebHarness) -> None:
    """Its headers leave before the handler is done."""
    chat = await harness.open()
    async with chat.watch() as events:
        assert "Content-Security-Policy" in events.response.headers
        assert events.response.content_type == "text/event-stream"


async def test_without_the_token_nothing_is_told(guarded: WebHarness) -> None:
    """Neither pages nor data; only that Hermes is alive, and how to sign in."""
    for path in ("/", "/new", "/c/any", "/c/any/live", "/api/conversations", "/api/conversations/any/events"):
        status, _ = await guarded.get(path, allow_redirects=False)
        assert status == 401, path
    assert (await guarded.post("/api/conversations", {"platform": "web"}))[0] == 401
    assert (await guarded.get("/healthz"))[0] == 200
    _, page = await guarded.get("/new")
    assert 'name="token"' in page


@pytest.mark.parametrize(
    "authorization", ["Bearer wrong", "Bearer", "Basic dG9rZW4=", f"Bearer {TOKEN}x", "\udcff"]
)
async def test_a_wrong_bearer_is_refused(guarded: WebHarness, authorization: str) -> None:
    """Also other schemes, and bytes that are not text."""
    status, answer = await guarded.get("/api/conversations", headers={"Authorization": authorization})
    assert (status, "token" in answer["error"]) == (401, True)


async def test_the_bearer_token_opens(guarded: WebHarness) -> None:
    """How the terminal client and scripts come in."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert await guarded.get("/api/conversations", headers=headers) == (200, [])


async def test_files_outside_the_static_folder_are_not_served(harness: WebHarness) -> None:
    """Neither by dots nor by encoded dots."""
    for path in (
        "/static/../platform.py",
        "/static/%2e%2e/platform.py",
        "/static/..%2fplatform.py",
        "/static/",
    ):
        async with harness.http.get(URL(harness.url + path, encoded=True)) as response:
            assert response.status in (403, 404), path
