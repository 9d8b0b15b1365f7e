"""Telegram calls Hermes: what is let in, what is turned away, what is noticed."""

from __future__ import annotations

import asyncio
import io
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.updates import SECRET_HEADER, Webhook
from tests.support.telegram_harness import TelegramHarness, running, settings_for

SECRET = "a-secret_of-32-characters-0123456"
SIGNED = (
    f"POST / HTTP/1.1\r\nHost: x\r\n{SECRET_HEADER}: {SECRET}\r\n"
    "Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
)
"""The beginning of a call of Telegram."""


@pytest.fixture
def address() -> str:
    """An address without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/telegram"


def _settings(server: FakeTelegram, address: str) -> Any:
    port = int(address.rpartition(":")[2].partition("/")[0])
    return settings_for(server, webhook={"url": address, "secret": SECRET, "port": port})


@pytest.fixture
async def hooked(server: FakeTelegram, address: str) -> AsyncIterator[TelegramHarness]:
    async with running(server, settings=_settings(server, address)) as harness:
        yield harness


async def _call(address: str, body: bytes, **headers: str) -> tuple[int, str]:
    given = {SECRET_HEADER: SECRET, "Content-Type": "application/json"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession() as http,
        http.post(address, data=io.BytesIO(body), headers=given) as response,
    ):
        return response.status, await response.text()


async def test_what_cannot_be_kept_is_not_confirmed(hooked: TelegramHarness) -> None:
    """Telegram calls again until it is."""
    hooked.receiver.refuses = 1
    assert (await hooked.says("hello")).text == "hello"
    assert hooked.receiver.refuses == 0


async def test_updates_are_pushed(hooked: TelegramHarness) -> None:
    """The webhook has its secret and the wanted kinds of updates; there is no polling."""
    assert [(await hooked.says(text)).text for text in ("one", "two")] == ["one", "two"]
    (call,) = hooked.server.calls_of("setWebhook")
    assert call.params["secret_token"] == SECRET
    assert call.params["allowed_updates"] == ["message", "edited_message", "callback_query", "my_chat_member"]
    assert "drop_pending_updates" not in call.params
    assert not hooked.server.calls_of("getUpdates")
    assert hooked.platform.health.state == "up"


async def test_the_same_update_twice(hooked: TelegramHarness, address: str) -> None:
    """A call that Telegram repeats is confirmed, and the same message to the receiver."""
    first = await hooked.says("once")
    update = hooked.server.bot.updates.history[-1]
    assert await _call(address, json.dumps(update).encode()) == (200, "")
    assert await hooked.receiver.next() == first


@pytest.mark.parametrize("secret", ["", "wrong", SECRET + "x", SECRET[:-1], "größer"])
async def test_a_wrong_secret(hooked: TelegramHarness, address: str, secret: str) -> None:
    """Turned away, without a word about what was wrong."""
    status, text = await _call(address, b'{"update_id": 1}', **{SECRET_HEADER: secret})
    assert (status, text) == (401, "401: Unauthorized")


async def test_a_wrong_secret_is_turned_away_before_the_body_is_read(
    hooked: TelegramHarness, address: str
) -> None:
    status, _ = await _call(address, b"x" * 10_000_000, **{SECRET_HEADER: "wrong"})
    assert status == 401


async def test_a_body_that_is_too_large(hooked: TelegramHarness, address: str) -> None:
    """An update has a few kilobytes."""
    status, _ = await _call(address, b'"' + b"x" * 2**20 + b'"')
    assert status == 413


@pytest.mark.parametrize(
    ("sent", "answer"), [("", b""), ("POST / HTTP/1.1\r\nX-A: ", b""), (SIGNED, b"HTTP/1.1 408 ")]
)
async def test_a_request_that_never_ends(
    server: FakeTelegram, address: str, sent: str, answer: bytes
) -> None:
    """The connection is closed, and no handler waits for the rest."""
    settings = _settings(server, address)
    async with running(server, settings=settings, webhook_request_seconds=0.3) as harness:
        assert (await harness.says("hello")).text == "hello"
        reader, writer = await asyncio.open_connection("127.0.0.1", settings.webhook.port)
        try:
            writer.write(sent.encode())
            async with asyncio.timeout(20):
                assert (await reader.read(len(answer) or -1)) == answer
        finally:
            writer.close()


async def test_another_content_type(hooked: TelegramHarness, address: str) -> None:
    """Telegram sends JSON and says so."""
    status, _ = await _call(address, b'{"update_id": 1}', Content_Type="text/plain")
    assert status == 415


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'"text"', b"\xff"])
async def test_what_is_no_update(hooked: TelegramHarness, address: str, body: bytes) -> None:
    """Turned away; the next update is taken."""
    status, _ = await _call(address, body)
    assert status == 400
    assert (await hooked.says("hello")).text == "hello"


async def test_an_update_that_cannot_be_read_is_not_asked_for_again(
    hooked: TelegramHarness, address: str
) -> None:
    """With a number it counts as received, or Telegram would repeat it for days."""
    status, _ = await _call(address, b'{"update_id": 5, "message": {"unheard": "of"}}')
    assert status == 200


async def test_only_posts_are_answered(hooked: TelegramHarness, address: str) -> None:
    """There is nothing to look at."""
    async with (
        aiohttp.ClientSession() as http,
        http.get(address, headers={SECRET_HEADER: SECRET}) as response,
    ):
        assert response.status == 405


async def test_a_proxy_may_change_the_path(hooked: TelegramHarness, address: str) -> None:
    """It is the secret that counts."""
    root = address.removesuffix("/telegram")
    assert (await _call(root + "/", b'{"update_id": 1}'))[0] == 200


async def test_a_webhook_that_somebody_replaced(server: FakeTelegram, address: str) -> None:
    """Noticed, said, and set right."""
    async with running(server, settings=_settings(server, address), webhook_check_seconds=0.05) as harness:
        server.bot.updates.set_webhook(None)
        assert "Another program has changed the bot's webhook" in (await harness.until("down")).detail
        assert (await harness.says("hello")).text == "hello"
        await harness.until("up")


async def test_a_webhook_that_telegram_cannot_reach(server: FakeTelegram, address: str) -> None:
    """Down with what Telegram met, as long as something waits there; up again once it got through."""
    async with running(server, settings=_settings(server, address), webhook_check_seconds=0.05) as harness:
        hook = server.bot.updates.webhook
        assert hook is not None
        server.bot.updates.set_webhook(Webhook(hook.url, "another secret"))
        assert harness.platform.health.state == "up", "nothing waits yet"
        await harness.ada.says("hello")
        detail = (await harness.until("down")).detail
        assert "check the proxy and its certificate: Wrong response from the webhook: 401" in detail
        server.bot.updates.set_webhook(replace(hook, last_error="Timed out", last_error_at=1_700_000_000))
        assert (await harness.receiver.next()).text == "hello"
        await harness.until("up")


async def test_a_port_that_is_taken(server: FakeTelegram) -> None:
    """Said with the settings that would help; no webhook is set that leads nowhere."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = f"http://127.0.0.1:{other.getsockname()[1]}/"
        async with running(server, settings=_settings(server, taken)) as harness:
            assert harness.platform.health.state == "down"
            assert "change `webhook.host` and `webhook.port`" in harness.platform.health.detail
    assert not server.calls_of("setWebhook")


async def test_a_url_that_telegram_does_not_take(server: FakeTelegram, address: str) -> None:
    """A person has to change it; Telegram's reason is passed on."""
    settings = _settings(server, address).model_copy(deep=True)
    refused = settings.webhook.model_copy(update={"url": "https://hermes.example/"})
    async with running(server, settings=settings.model_copy(update={"webhook": refused})) as harness:
        assert harness.platform.health.state == "refused"
        assert "bad webhook" in harness.platform.health.detail.lower()


async def test_what_comes_while_hermes_is_off_waits_at_telegram(server: FakeTelegram, address: str) -> None:
    """The webhook stays set; Telegram retries until Hermes answers."""
    async with running(server, settings=_settings(server, address)) as harness:
        await harness.says("before")
    await harness.ada.says("while off")
    async with running(server, settings=_settings(server, address)) as later:
        assert (await later.receiver.next()).text == "while off"
