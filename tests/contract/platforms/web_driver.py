"""A person at the web chat: what its event stream tells, put together as the page does."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp

from tests.contract.platforms.harness import ContractHarness
from tests.contract.platforms.scripted_model import PATIENCE
from tests.contract.platforms.surface import File, Person, Shown
from tests.support.hermes_process import WebClient
from tests.support.watch import Watch

RECONNECT_SECONDS = 0.1
CHOICES = {"Once": "once", "This conversation": "conversation", "Deny": "deny"}


class WebPerson(Person):
    def __init__(self, name: str, client: WebClient, url: str) -> None:
        self.name = name
        self._client = client
        self._url = url
        self._shown: list[Shown] = []
        self._waiting: list[str] = []
        self._sent: list[str] = []
        self._watch = Watch()

    async def says(self, text: str, *, to_bot: bool = True, reply_to: Any = None) -> str:
        return await self._client.send(text)

    async def presses(self, shown: Shown, label: str) -> str:
        async with (
            aiohttp.ClientSession() as http,
            http.post(
                f"{self._api}/approvals/{shown.buttons[label]}", json={"choice": CHOICES[label]}
            ) as answer,
        ):
            return str((await answer.json())["said"])

    def messages(self) -> list[Shown]:
        waiting = [Shown(f"⏳ {len(self._waiting)} waiting")] if self._waiting else []
        return [*self._shown, *waiting]

    async def until(self, condition: Callable[[], bool]) -> None:
        try:
            await asyncio.wait_for(asyncio.wrap_future(self._watch.until(condition)), PATIENCE)
        except TimeoutError:
            raise AssertionError(f"not within {PATIENCE} s. The page shows: {self.visible()}") from None

    async def sees_bold(self, words: str) -> bool:
        """On the page as it is served, which is drawn by the same hand as the one that grows."""
        return f"<strong>{words}</strong>" in await self._page()

    async def follows(self) -> None:
        """Reads what happens, for as long as it is let; like a browser, it connects again when Hermes was away."""
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async for event in self._client.events():
                    await self._take(event)
                    self._watch.changed()
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _take(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "TurnStarted":
                self._waiting = [waiting for waiting in self._waiting if waiting != event["message_id"]]
            case "Queued":
                self._waiting.append(event["message_id"])
            case "TextDelta":
                self._write(event["text"])
            case "Notice":
                self._shown.append(Shown(event["text"]))
            case "TurnFailed":
                self._shown.append(Shown(f"⚠ {event['error']}"))
            case "ApprovalAsked":
                self._end_text()
                self._shown.append(
                    Shown(event["arguments"], buttons=dict.fromkeys(CHOICES, event["approval_id"]))
                )
            case "ApprovalSettled":
                self._shown = [replace(shown, buttons={}) for shown in self._shown]
            case "FileSent":
                self._sent.append(event["name"])
            case "TurnDone" if self._sent:
                self._shown += [Shown("", file=await self._download(name)) for name in self._sent]
                self._sent.clear()
        if event["type"] in ("ToolStarted", "TurnDone", "TurnFailed"):
            self._end_text()

    def _write(self, text: str) -> None:
        if self._shown and self._shown[-1].is_growing:
            text = self._shown.pop().text + text
        self._shown.append(Shown(text, is_growing=True))

    def _end_text(self) -> None:
        self._shown = [replace(shown, is_growing=False) for shown in self._shown]

    async def _download(self, name: str) -> File:
        """Download by the link on the page."""
        found = re.search(rf'href="([^"]+)" download="{re.escape(name)}"', await self._page())
        assert found, f"there is no link to {name}"
        async with aiohttp.ClientSession() as http, http.get(self._url + found[1]) as answer:
            return File(name, await answer.read())

    async def _page(self) -> str:
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"{self._url}/c/{self._client.conversation_id}") as answer,
        ):
            return await answer.text()

    @property
    def _api(self) -> str:
        return f"{self._url}/api/conversations/{self._client.conversation_id}"


class WebSurface:
    name = "web"
    limit = 100_000

    def __init__(self, harness: ContractHarness, stack: AsyncExitStack) -> None:
        self._harness = harness
        self._stack = stack

    def size(self, text: str) -> int:
        return len(text)

    async def person(self, name: str = "Ada") -> WebPerson:
        return await self._stack.enter_async_context(self._at_the_page(name))

    @asynccontextmanager
    async def _at_the_page(self, name: str) -> AsyncIterator[WebPerson]:
        url = self._harness.hermes.url
        async with WebClient.open(url, f"{name} {next(self._harness.numbers)}") as client:
            person = WebPerson(name, client, url)
            following = asyncio.create_task(person.follows())
            try:
                yield person
            finally:
                following.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await following
