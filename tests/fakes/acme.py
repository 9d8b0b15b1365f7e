"""Acme, the chat service of `docs/platforms.md`: JSON lines over TCP, ids such as `U02AB3`."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from tests.support.watch import PATIENCE

TOKEN = "acme-token-1"


@dataclass
class AcmeMessage:
    id: str
    text: str
    buttons: list[list[str]] = field(default_factory=list)


class FakeAcme:
    """A server on a loopback port. It delivers events again until the bot acknowledges them."""

    def __init__(self) -> None:
        self.port = 0
        self.chats: dict[str, list[AcmeMessage]] = {}
        """The messages of the bot, by chat."""
        self._changed = asyncio.Condition()
        self._ids = itertools.count(1)
        self._unacknowledged: dict[int, dict[str, Any]] = {}
        self._bots: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def says(
        self, user: str, text: str, *, name: str = "Ada", group: str = "", to_bot: bool = True
    ) -> None:
        """Deliver a message: in the user's direct chat, or in a group."""
        await self._deliver(user, name, group, text=text, to_bot=to_bot)

    async def presses(self, user: str, message: AcmeMessage, label: str) -> None:
        (data,) = [data for shown, data in message.buttons if shown == label]
        await self._deliver(user, user, "", id=message.id, press=data)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(condition)

    async def answer(self, chat: str, words: str, *, after: int = 0) -> AcmeMessage:
        """Wait for a message of the bot with these words, behind `after` others."""

        def found() -> list[AcmeMessage]:
            return [message for message in self.chats.get(chat, [])[after:] if words in message.text]

        await self.until(lambda: bool(found()))
        return found()[0]

    async def all_acknowledged(self) -> None:
        await self.until(lambda: not self._unacknowledged)

    def drop_connections(self) -> None:
        for bot in self._bots:
            bot.close()

    async def _deliver(self, user: str, name: str, group: str, **event: Any) -> None:
        number = next(self._ids)
        event = {"id": f"m{number}", **event, "number": number, "user": user, "name": name}
        event |= {"chat": group or _direct(user), "group": bool(group)}
        self._unacknowledged[number] = event
        for bot in self._bots:
            bot.write(_line(event))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        try:
            hello = json.loads(await reader.readline())
            if hello["token"] != TOKEN:
                writer.write(_line({"error": "unknown token"}))
                return
            writer.write(_line({"bot": "acme_bot"}))
            self._bots.append(writer)
            for event in self._unacknowledged.values():
                writer.write(_line(event))
            while line := await reader.readline():
                await self._take(json.loads(line), writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            if writer in self._bots:
                self._bots.remove(writer)
            writer.close()
            self._tasks.discard(task)

    async def _take(self, item: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        async with self._changed:
            if "ack" in item:
                self._unacknowledged.pop(item["ack"], None)
            else:
                writer.write(_line({"reply": item["call"], **self._call(item)}))
            self._changed.notify_all()

    def _call(self, call: dict[str, Any]) -> dict[str, Any]:
        messages = self.chats.setdefault(call.get("chat", ""), [])
        match call["method"]:
            case "direct":
                return {"chat": _direct(call["user"])}
            case "send":
                messages.append(AcmeMessage(f"m{next(self._ids)}", call["text"], call["buttons"]))
                return {"id": messages[-1].id}
            case "edit":
                (message,) = [each for each in messages if each.id == call["id"]]
                message.text, message.buttons = call["text"], call["buttons"]
            case "delete":
                messages[:] = [each for each in messages if each.id != call["id"]]
        return {}


def _direct(user: str) -> str:
    return f"D-{user}"


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"
