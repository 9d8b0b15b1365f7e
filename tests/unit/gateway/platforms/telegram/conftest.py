"""A server of Telegram, and a bot that is connected to it."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterator

import pytest
import structlog
from PIL import Image

from tests.fakes.telegram.server import FakeTelegram
from tests.support.telegram_harness import TelegramHarness, running


@pytest.fixture(autouse=True)
def plain_log() -> Iterator[None]:
    """As in the running program, tracebacks come without local variables; drawing those takes long."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
        ]
    )
    yield
    structlog.reset_defaults()


@pytest.fixture
async def server() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as server:
        yield server


@pytest.fixture
async def harness(server: FakeTelegram) -> AsyncIterator[TelegramHarness]:
    async with running(server) as harness:
        yield harness


@pytest.fixture(scope="session")
def photo() -> bytes:
    """A small picture."""
    canvas = io.BytesIO()
    Image.new("RGB", (640, 480), "teal").save(canvas, "JPEG")
    return canvas.getvalue()
