"""The real python-telegram-bot, pointed at a FakeTelegram, and a few things to send with it."""

from __future__ import annotations

import io
from typing import Any

from PIL import Image
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, MessageEntity
from telegram.request import HTTPXRequest

from tests.fakes.telegram.server import FakeTelegram, Person


def connected(server: FakeTelegram, token: str = "") -> Bot:
    """A bot to be entered with `async with`. Plain http needs no certificates, and loading them is slow."""
    request, polling = [HTTPXRequest(httpx_kwargs={"verify": False}) for _ in range(2)]
    return Bot(
        token or server.token,
        base_url=f"{server.url}/bot",
        base_file_url=f"{server.url}/file/bot",
        request=request,
        get_updates_request=polling,
    )


def newcomer(server: FakeTelegram) -> Person:
    """Ada, who has begun a chat with the bot: it holds her message number 1, of which no bot was told."""
    person = server.person(first_name="Ada", username="ada_lovelace")
    person.chat.post(person.user, text="Hi")
    return person


def keyboard(text: str, **action: Any) -> InlineKeyboardMarkup:
    return InlineKeyboardMarkup([[InlineKeyboardButton(text, **action)]])


def entity(kind: str, offset: int, length: int, **more: Any) -> MessageEntity:
    return MessageEntity(kind, offset, length, **more)


def picture(size: tuple[int, int] = (32, 16)) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, "teal").save(out, "PNG")
    return out.getvalue()
