"""Odd characters just where a message is full: Telegram takes every piece, and nothing of the text is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gateway.text.splitter import split_text
from gateway.text.unicode import utf16_length
from tests.telegram.bench import Bench, running
from tests.worlds.telegram import TelegramWorld

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
async def bench() -> AsyncIterator[Bench]:
    async with TelegramWorld() as world, running(world) as bench:
        await bench.says("hello")
        yield bench


async def _sent(bench: Bench, text: str) -> str:
    """What people read, message after message. The world refuses what is too long, and half a character."""
    for piece in split_text(text, LIMIT, utf16_length):
        await bench.port.send(bench.direct, piece, formatted=True)
    shown = bench.ada.chat.from_bot
    assert all(0 < utf16_length(message.text) <= LIMIT for message in shown)
    assert len(shown) == 2
    return "".join(message.text for message in shown)


@pytest.mark.parametrize("units", [4095, 4096])
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
async def test_whatever_stands_at_the_limit(bench: Bench, odd: str, units: int) -> None:
    """The character that does not fit goes into the next message as a whole."""
    text = "a" * (units - utf16_length(odd) // 2) + odd + "z" * 100
    assert await _sent(bench, text) == text


@pytest.mark.parametrize("units", [4095, 4096])
@pytest.mark.parametrize("odd", ["", *ODD.values()], ids=["nothing else", *ODD.keys()])
async def test_a_fence_that_is_never_closed(bench: Bench, odd: str, units: int) -> None:
    """Both messages show code, and the fences that were added are not a part of it."""
    line = "x = 1\n"
    code = line * ((units - len("```py\n")) // len(line)) + odd + "\n" + line * 20
    shown = await _sent(bench, "```py\n" + code)
    assert "```" not in shown
    assert "".join(shown.split()) == "".join(code.split())
    kinds = [[entity["type"] for entity in message.entities] for message in bench.ada.chat.from_bot]
    assert kinds == [["pre"], ["pre"]]
