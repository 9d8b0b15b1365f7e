"""Odd characters just where a message is full: Telegram takes every piece, and nothing of the text is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gateway.text.unicode import utf16_length
from tests.fakes.telegram.server import FakeTelegram
from tests.support.joined_text import split_text
from tests.support.telegram_harness import TelegramHarness, running

LIMIT = 4096

ODD = {
    "an emoji beyond the BMP": "😀",
    "a family": "👨\u200d👩\u200d👧",
    "a flag": "🇩🇪",
    "a letter with its accent": "e\u0301",
    "from right to left": "שלום",
    "an override of direction": "\u202eedocllac\u202c",
    "characters of no width": "\u200b\u2060\ufeff\u200d",
}


@pytest.fixture
async def harness() -> AsyncIterator[TelegramHarness]:
    async with FakeTelegram() as server, running(server) as harness:
        await harness.says("hello")
        yield harness


async def _sent(harness: TelegramHarness, text: str) -> str:
    """What people read, message after message. The server refuses what is too long, and half a character."""
    for piece in split_text(text, LIMIT, utf16_length):
        await harness.port.send(harness.direct, piece, formatted=True)
    shown = harness.ada.chat.from_bot
    assert all(0 < utf16_length(message.text) <= LIMIT for message in shown)
    assert len(shown) == 2
    return "".join(message.text for message in shown)


@pytest.mark.parametrize("units", [4095, 4096])
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
async def test_whatever_stands_at_the_limit(harness: TelegramHarness, odd: str, units: int) -> None:
    """The character that does not fit goes into the next message as a whole."""
    text = "a" * (units - utf16_length(odd) // 2) + odd + "z" * 100
    assert await _sent(harness, text) == text


@pytest.mark.parametrize("units", [4095, 4096])
@pytest.mark.parametrize("odd", ["", *ODD.values()], ids=["nothing else", *ODD.keys()])
async def test_a_fence_that_is_never_closed(harness: TelegramHarness, odd: str, units: int) -> None:
    """Both messages show code, and the fences that were added are not a part of it."""
    line = "x = 1\n"
    code = line * ((units - len("```py\n")) // len(line)) + odd + "\n" + line * 20
    shown = await _sent(harness, "```py\n" + code)
    assert "```" not in shown
    assert "".join(shown.split()) == "".join(code.split())
    kinds = [[entity["type"] for entity in message.entities] for message in harness.ada.chat.from_bot]
    assert kinds == [["pre"], ["pre"]]
