"""Telegram's webhook: rejected callers, body limits, and unwanted kinds of updates."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.updates import SECRET_HEADER
from tests.support.telegram_harness import TelegramHarness, running, settings_for

SECRET = "a-fake-secret-of-32-characters-00"
JSON = {"Content-Type": "application/json"}
SIGNED = {SECRET_HEADER: SECRET, **JSON}


@pytest.fixture
async def hooked() -> AsyncIterator[TelegramHarness]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    hook = {"url": f"http://127.0.0.1:{port}/", "secret": SECRET, "port": port}
    async with (
        FakeTelegram() as server,
        running(server, settings=settings_for(server, webhook=hook)) as harness,
    ):
        yield harness


async def _call(harness: TelegramHarness, body: bytes, headers: dict[str, str]) -> int:
    url = harness.server.calls_of("setWebhook")[0].params["url"]
    async with (
        aiohttp.ClientSession() as http,
        http.post(url, data=io.BytesIO(body), headers=headers) as response,
    ):
        return response.status


async def _message(harness: TelegramHarness, text: str) -> bytes:
    """An update as Telegram writes it, of a message that the bot has not been told of."""
    await harness.says("before")
    update = json.loads(json.dumps(harness.server.bot.updates.history[-1]))
    update["update_id"] += 1
    update["message"] |= {"message_id": 9_999, "text": text}
    return json.dumps(update).encode()


@pytest.mark.parametrize(
    "headers",
    [
        JSON,
        {SECRET_HEADER: "", **JSON},
        {SECRET_HEADER: SECRET.upper(), **JSON},
        {"Authorization": f"Bearer {SECRET}", **JSON},
        {"X-Telegram-Bot-Api-Secret-Token-2": SECRET, **JSON},
    ],
)
async def test_without_the_secret_a_perfect_update_does_nothing(
    hooked: TelegramHarness, headers: dict[str, str]
) -> None:
    """It is not even read; with the secret it would have been taken."""
    forged = await _message(hooked, "run it")
    assert await _call(hooked, forged, headers) == 401
    assert await _call(hooked, forged.replace(b"run it", b"for real"), SIGNED) == 200
    assert (await hooked.receiver.next()).text == "for real"


@pytest.mark.parametrize("head", [b'{"update_id": 1, "text": "', b"[" * 1_000])
async def test_ten_megabytes_are_not_taken(hooked: TelegramHarness, head: bytes) -> None:
    """Even from a caller who knows the secret; the next update is."""
    assert await _call(hooked, head + b"x" * 10_000_000, SIGNED) == 413
    assert (await hooked.says("hello")).text == "hello"


async def test_brackets_without_end(hooked: TelegramHarness) -> None:
    """A megabyte of nesting is rejected without an internal error."""
    assert await _call(hooked, b"[" * 500_000, SIGNED) == 400
    assert (await hooked.says("hello")).text == "hello"


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json", ""],
)
async def test_what_is_not_called_json_is_not_read_as_such(
    hooked: TelegramHarness, content_type: str
) -> None:
    """Telegram says `application/json`; a browser could be made to send the others."""
    update = await _message(hooked, "run it")
    assert await _call(hooked, update, {SECRET_HEADER: SECRET, "Content-Type": content_type}) == 415
    assert [message.text for message in hooked.receiver.messages] == ["before"]


@pytest.mark.parametrize("kind", ["message_reaction", "channel_post", "inline_query", "business_message"])
async def test_kinds_of_updates_that_nobody_asked_for(hooked: TelegramHarness, kind: str) -> None:
    """A reaction, a channel post, a query: confirmed and ignored, from every sender."""
    update = json.loads(await _message(hooked, "run it"))
    if kind in ("channel_post", "business_message"):
        update[kind] = update.pop("message")
    else:
        message = update.pop("message")
        who = {"user": message["from"], "from": message["from"], "id": "1", "query": "run it", "offset": ""}
        reaction = {"old_reaction": [], "new_reaction": [{"type": "emoji", "emoji": "👍"}]}
        update[kind] = who | reaction | {"chat": message["chat"], "message_id": 1, "date": message["date"]}
    assert await _call(hooked, json.dumps(update).encode(), SIGNED) == 200
    await hooked.says("after")
    assert [message.text for message in hooked.receiver.messages] == ["before", "after"]
    assert not hooked.receiver.edits and not hooked.receiver.presses
