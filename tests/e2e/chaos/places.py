"""Chats of the kill test: people write there, and the bot's messages are visible."""

from __future__ import annotations

import asyncio
import html
import re
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import aiohttp

from tests.e2e.chaos.observed import Said, Shown
from tests.e2e.chaos.words import question
from tests.fakes.discord import server as discord
from tests.fakes.telegram import server as telegram

IsUncertain = Callable[[float], bool]
"""Return whether the caller at this moment can know the result of the call."""

_ARTICLE = re.compile(r'<article class="answer">(.*?)</article>', re.DOTALL)
_POST_SECONDS = 5.0
_GLANCE, _GLANCE_SECONDS, _WHOLE_PAGE = 40, 0.3, 10_000
"""Messages, and how often they are looked at."""
_RECENT = 300
"""Messages among which an answer is looked for; more would make those wait who are to be watched."""


class Place(Protocol):
    chat: str
    platform: str
    is_direct: bool

    async def say(self, token: int) -> Said | None:
        """None: it could not be said, and the one who tried knows it."""
        ...

    async def command(self, text: str) -> None:
        """Something that is answered by Hermes itself."""
        ...

    async def shown(self) -> list[Shown]:
        """By the bot, as it can be seen now."""
        ...

    def shows(self, word: str) -> bool:
        """Whether a message that is complete holds this word, among the newest."""
        ...


class TelegramPlace:
    platform = "telegram"

    def __init__(
        self,
        server: telegram.FakeTelegram,
        people: Sequence[telegram.Person],
        chat: telegram.Chat,
        uncertain: IsUncertain,
    ) -> None:
        self.chat = f"telegram:{chat.id}"
        self.is_direct = chat.kind == "private"
        self._server = server
        self._people = people
        self._chat = chat
        self._uncertain = uncertain

    async def say(self, token: int) -> Said:
        text = question(token)
        if not self.is_direct:
            text = f"@{self._server.bot.username} {text}"
        person = self._people[token % len(self._people)]
        message = await person.says(text, chat=self._chat)
        return Said(token, self.chat, str(message.id))

    async def command(self, text: str) -> None:
        address = "" if self.is_direct else f"@{self._server.bot.username}"
        await self._people[0].says(text + address, chat=self._chat)

    async def shown(self) -> list[Shown]:
        sent = {
            call.result["message_id"]: call
            for call in self._server.calls_of("sendMessage")
            if call.result and call.chat_id == self._chat.id
        }
        return [
            Shown(
                self.chat,
                str(message.id),
                message.text,
                str(message.reply_to.id) if message.reply_to else "",
                bool(sent[message.id].error) or self._uncertain(sent[message.id].at),
            )
            for message in self._chat.from_bot
            if message.text
        ]

    def shows(self, word: str) -> bool:
        return any(
            _is_complete(message.text, word) for message in self._chat.messages[-_RECENT:] if message.from_bot
        )


class DiscordPlace:
    platform = "discord"

    def __init__(
        self,
        server: discord.FakeDiscord,
        people: Sequence[discord.Person],
        channel: discord.Channel,
        uncertain: IsUncertain,
    ) -> None:
        self.chat = f"discord:{channel.id}"
        self.is_direct = channel.guild is None
        self._server = server
        self._people = people
        self._channel = channel
        self._uncertain = uncertain

    async def say(self, token: int) -> Said:
        person = self._people[token % len(self._people)]
        mentions = [] if self.is_direct else [self._server.bot]
        message = await person.says(question(token), channel=self._channel, mentions=mentions)
        return Said(token, self.chat, str(message.id))

    async def command(self, text: str) -> None:
        await self._people[0].says(text, channel=self._channel)

    async def shown(self) -> list[Shown]:
        ahead = self._server.clock.now() - time.monotonic()
        answered = {
            int(call.answer["id"]): call.at - ahead
            for call in self._server.calls_to("send_message")
            if call.answer and "id" in call.answer
        }
        return [
            Shown(
                self.chat,
                str(message.id),
                message.content,
                str(message.reply_to.id) if message.reply_to else "",
                self._is_uncertain(answered.get(message.id)),
            )
            for message in self._channel.answers
            if message.content
        ]

    def shows(self, word: str) -> bool:
        recent = (message for message in self._channel.history[-_RECENT:] if not message.deleted)
        return any(_is_complete(message.content, word) for message in recent)

    def _is_uncertain(self, at: float | None) -> bool:
        """A message whose sender was never answered has no moment."""
        return at is None or self._uncertain(at)


class WebPlace:
    platform = "web"
    is_direct = True

    def __init__(self, url: str, chat_id: str, http: aiohttp.ClientSession) -> None:
        self.chat = f"web:{chat_id}"
        self._url = url
        self._chat_id = chat_id
        self._http = http
        self._conversation = ""
        self._line = asyncio.Lock()
        """One message at a time, so that there is an order."""
        self._page: list[str] = []
        self._looked = 0.0

    async def say(self, token: int) -> Said | None:
        async with self._line:
            if not self._conversation and not await self._opened():
                return None
            try:
                return await self._post(token)
            except aiohttp.ClientConnectorError:
                return None
            except (aiohttp.ClientError, TimeoutError):
                return Said(token, self.chat, accepted=False)

    async def command(self, text: str) -> None:
        """People can do without on the page."""

    async def _post(self, token: int) -> Said | None:
        address = f"{self._url}/api/conversations/{self._conversation}/messages"
        patience = aiohttp.ClientTimeout(_POST_SECONDS)
        async with self._http.post(address, json={"text": question(token)}, timeout=patience) as answer:
            if answer.status != 202:
                return None
            return Said(token, self.chat, (await answer.json())["message_id"])

    async def shown(self) -> list[Shown]:
        await self._load(_WHOLE_PAGE)
        return [Shown(self.chat, str(number), text) for number, text in enumerate(self._page)]

    async def look(self) -> None:
        """Only now and then: rendering a page is expensive."""
        if time.monotonic() - self._looked > _GLANCE_SECONDS:
            self._looked = time.monotonic()
            await self._load(_GLANCE)

    async def _load(self, limit: int) -> None:
        """If it can be had."""
        if not self._conversation:
            return
        try:
            async with self._http.get(f"{self._url}/c/{self._conversation}?limit={limit}") as answer:
                page = await answer.text()
        except aiohttp.ClientError:
            return
        texts = (html.unescape(re.sub(r"<h2.*?</h2>|<[^>]+>", " ", part)) for part in _ARTICLE.findall(page))
        self._page = list(texts)

    def shows(self, word: str) -> bool:
        return any(_is_complete(text, word) for text in self._page[-_RECENT:])

    async def _opened(self) -> bool:
        try:
            body = {"platform": "web", "chat_id": self._chat_id}
            async with self._http.post(f"{self._url}/api/conversations", json=body) as answer:
                self._conversation = (await answer.json())["id"]
        except (aiohttp.ClientError, TimeoutError):
            return False
        return True


def _is_complete(text: str, word: str) -> bool:
    return word in text.split() and not text.rstrip().endswith("▌")
