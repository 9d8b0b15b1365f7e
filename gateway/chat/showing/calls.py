"""What a chat service can be asked to do, as values."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from gateway.chat.contract import Button, ChatPort, Place


@dataclass(frozen=True, slots=True)
class Send:
    text: str
    formatted: bool = False
    reply_to: str = ""
    buttons: tuple[Button, ...] = ()
    silent: bool = False

    async def make(self, port: ChatPort, place: Place) -> str:
        return await port.send(
            place,
            self.text,
            formatted=self.formatted,
            reply_to=self.reply_to,
            buttons=self.buttons,
            silent=self.silent,
        )


@dataclass(frozen=True, slots=True)
class Edit:
    message_id: str
    text: str
    formatted: bool = False
    buttons: tuple[Button, ...] = ()

    async def make(self, port: ChatPort, place: Place) -> str:
        await port.edit(place, self.message_id, self.text, formatted=self.formatted, buttons=self.buttons)
        return self.message_id


@dataclass(frozen=True, slots=True)
class Delete:
    message_id: str

    async def make(self, port: ChatPort, place: Place) -> str:
        await port.delete(place, self.message_id)
        return self.message_id


@dataclass(frozen=True, slots=True)
class SendFile:
    name: str
    read: Callable[[], bytes]
    """Called in a thread, each time anew: a file is not kept in memory while the service asks for patience."""
    caption: str = ""

    async def make(self, port: ChatPort, place: Place) -> str:
        data = await asyncio.to_thread(self.read)
        return await port.send_file(place, self.name, data, caption=self.caption)


Call = Send | Edit | Delete | SendFile
"""`make` gives the id of the message it was about."""
