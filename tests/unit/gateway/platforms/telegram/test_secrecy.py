"""The token is in every address of the Bot API, and must be in no log line and no error."""

from __future__ import annotations

import asyncio
import logging
import traceback

import pytest
from aiohttp import web

from gateway.chat.errors import DeliveryError
from gateway.errors import AttachmentRefused
from gateway.types import Button, Place
from tests.fakes.telegram.server import FakeTelegram, Fault
from tests.support.telegram_harness import TelegramHarness, running, settings_for

LIBRARIES = ("httpx", "httpcore", "telegram")
SECRET_PART = "AAHermes-loopback_token-of-the-tests"


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """As loud as the libraries can be made, against our own advice."""
    for name in ("", *LIBRARIES):
        caplog.set_level(logging.DEBUG, logger=name)
    return caplog


async def _everything_that_can_go_wrong(harness: TelegramHarness) -> list[BaseException]:
    """Uses each call, makes each fail, and gives what was raised."""
    problems: list[BaseException] = []
    await harness.ada.sends_document(b"data", "a.txt")
    (attachment,) = (await harness.receiver.next()).attachments
    sent = await harness.port.send(harness.direct, "**hi**", formatted=True, buttons=[Button("Yes", "y")])
    await (await harness.ada.presses(harness.ada.chat.from_bot[-1], "Yes")).answered()
    await attachment.read(1_000)
    for fault in (Fault.drop(), Fault.error(502, "Bad Gateway"), Fault.error(401, "Unauthorized")):
        for method in ("sendMessage", "editMessageText", "sendDocument", "getFile", "sendChatAction"):
            harness.server.fail_next(method, fault)
        for call in (
            harness.port.send(harness.direct, "hi"),
            harness.port.edit(harness.direct, sent, "ho"),
            harness.port.send_file(harness.direct, "b.txt", b"b"),
            harness.port.typing(harness.direct),
            attachment.read(1_000),
        ):
            with pytest.raises((DeliveryError, AttachmentRefused)) as caught:
                await call
            problems.append(caught.value)
    return problems


async def test_the_token_is_in_no_log_line_and_no_error(
    server: FakeTelegram, everything_logged: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """At DEBUG, with every library unmuted, through every call and every failure."""
    async with running(server) as harness:
        problems = await _everything_that_can_go_wrong(harness)
        await server.go_down()
        details = [(await harness.until("down")).detail]
        await server.come_back()
        await harness.until("up")
    texts = ["".join(traceback.format_exception(problem)) + repr(problem) for problem in problems]
    output = capfd.readouterr()
    assert "HTTP Request: POST" in everything_logged.text, "the libraries are heard in this test"
    assert server.calls_of("sendDocument"), "and the real token was used"
    for text in (everything_logged.text, output.out, output.err, *texts, *details):
        assert SECRET_PART not in text


async def test_a_wrong_token_is_not_repeated(
    server: FakeTelegram, everything_logged: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The library's own sentence about it would."""
    token = "7000000001:AAalmost-the-right-one"
    async with running(server, settings=settings_for(server, token=token)) as harness:
        detail = harness.platform.health.detail
    output = capfd.readouterr()
    for text in (everything_logged.text, output.out, output.err, detail, harness.platform.where):
        assert "AAalmost" not in text


async def test_a_page_that_repeats_the_address(
    everything_logged: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Some proxy's error page shows what was asked for; the library logs the page."""

    async def page(request: web.Request) -> web.Response:
        asked.set()
        return web.Response(text=f"<html>no {request.path} here</html>", status=502)

    asked = asyncio.Event()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", page)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server = FakeTelegram()
    server.port = runner.addresses[0][1]
    try:
        async with running(server) as harness:
            await asked.wait()
            with pytest.raises(DeliveryError) as caught:
                await harness.port.send(Place("1"), "hi")
    finally:
        await runner.cleanup()
    output = capfd.readouterr()
    assert "here</html>" in everything_logged.text
    for text in (everything_logged.text, output.out, output.err, repr(caught.value)):
        assert SECRET_PART not in text


async def test_libraries_say_nothing_below_a_warning(
    server: FakeTelegram, caplog: pytest.LogCaptureFixture
) -> None:
    """What people write would be in their debug lines; asking everything of the root logger is not enough."""
    caplog.set_level(logging.DEBUG)
    async with running(server) as harness:
        await harness.says("something private")
        await harness.port.send(harness.direct, "something private")
    heard = [record for record in caplog.records if record.name.partition(".")[0] in LIBRARIES]
    assert heard == []
    assert "something private" not in caplog.text
