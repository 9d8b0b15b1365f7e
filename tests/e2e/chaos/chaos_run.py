"""Everything around the Hermes that is killed: services that stay up and keep their state, people, a model, a tool."""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from agent.aio import finish_despite_cancel
from tests.e2e.chaos.database import contents
from tests.e2e.chaos.effects import PLUGIN, Notebook
from tests.e2e.chaos.model import TalkativeModel
from tests.e2e.chaos.moments import Kind, Trap
from tests.e2e.chaos.observed import Observed, Said
from tests.e2e.chaos.places import DiscordPlace, Place, TelegramPlace, WebPlace
from tests.e2e.chaos.process import Hermes
from tests.fakes.discord import server as discord
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.telegram import server as telegram
from tests.fakes.telegram.faults import ALWAYS

TAPPED_TELEGRAM = ("getUpdates", "sendMessage", "editMessageText", "deleteMessage")
TAPPED_DISCORD = ("send_message", "edit_message", "delete_message", "get_messages")
GRACE = 0.5
"""Seconds before a kill in which Hermes need not have noted yet what became of its last call."""
LONGEST_START = 30.0
TEAM = -1_002_000_000_001


@dataclass
class ChaosRun:
    telegram: telegram.FakeTelegram
    discord: discord.FakeDiscord
    hermes: Hermes
    trap: Trap
    model: TalkativeModel
    notebook: Notebook
    places: list[Place]
    url: str
    """Of the chat page."""
    said: list[Said] = field(default_factory=list)
    said_at: dict[int, float] = field(default_factory=dict)
    _answered: set[int] = field(default_factory=set)
    tokens: Iterable[int] = field(default_factory=lambda: itertools.count(1))

    async def say(self, place: Place, kind: Kind) -> int:
        """Return the token of the message, also if it is unknown whether the message has arrived.

        A delivered message is recorded even if the caller is cancelled meanwhile.
        """
        token = next(iter(self.tokens))
        self.model.kinds[token] = kind
        await finish_despite_cancel(self._deliver(place, token))
        return token

    async def _deliver(self, place: Place, token: int) -> None:
        said = await place.say(token)
        if said is not None:
            self.said.append(said)
            self.said_at[token] = time.monotonic()

    def at(self, platform: str, *, is_direct: bool = False) -> list[Place]:
        return [
            place
            for place in self.places
            if platform in ("", place.platform) and (place.is_direct or not is_direct)
        ]

    def unanswered(self) -> list[Said]:
        """What must be answered and is not, as far as can be seen. Looked at often, so it looks only where it must."""
        by_chat = {place.chat: place for place in self.places}
        left = [said for said in self.said if said.accepted and said.token not in self._answered]
        for said in left:
            if any(by_chat[said.chat].shows(word) for word in self.model.endings.get(said.token, ())):
                self._answered.add(said.token)
        return [said for said in left if said.token not in self._answered]

    async def is_listened_to(self) -> bool:
        """Until Hermes polls Telegram and is connected to Discord. False: it has ended before."""
        life = self.hermes.life
        while not life.is_over:
            poll = next((call for call in reversed(self.telegram.calls) if call.method == "getUpdates"), None)
            polls = poll is not None and poll.at > life.started and bool(poll.params.get("timeout"))
            if polls and self.discord.gateway.online:
                return True
            if time.monotonic() - life.started > LONGEST_START:
                raise AssertionError(f"Hermes does not come up; see {life.log}")
            await asyncio.sleep(0.01)
        return False

    def _order(self, said: Said) -> tuple[str, float]:
        """As the platform took them, chat by chat."""
        return said.chat, int(said.number) if said.number.isdecimal() else self.said_at[said.token]

    async def look(self) -> None:
        """Pages have to be loaded; chats tell by themselves."""
        waiting = {said.chat for said in self.unanswered()}
        for place in self.places:
            if isinstance(place, WebPlace) and place.chat in waiting:
                await place.look()

    async def observed(self) -> Observed:
        """While Hermes is up, for the sake of the page."""
        shown = [message for place in self.places for message in await place.shown()]
        database = await asyncio.to_thread(contents, self.hermes.database)
        return Observed(
            said=sorted(self.said, key=self._order),
            shown=shown,
            stored=database.stored,
            executed=list(self.notebook.notes),
            unfinished=database.unfinished,
            damage=database.damage,
        )


@asynccontextmanager
async def open_chaos_run(
    home: Path, *, cold: bool = False, crowd: int = 0, **settings: Any
) -> AsyncIterator[ChaosRun]:
    """`crowd`: so many more people with a direct chat, half of them on Discord. `settings`: of the configuration."""
    async with AsyncExitStack() as stack:
        tg = await stack.enter_async_context(telegram.FakeTelegram())
        dc = await stack.enter_async_context(discord.FakeDiscord())
        llm = await stack.enter_async_context(FakeOpenAI(context_length=4_000_000))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        tg_people = [
            tg.person(id=1001 + number, first_name=f"Tess {number}") for number in range(4 + crowd // 2)
        ]
        dc_people = [dc.person(f"Dan {number}") for number in range(3 + crowd - crowd // 2)]
        port = _free_port()
        url = f"http://127.0.0.1:{port}"
        config = _configuration(tg, dc, tg_people, dc_people, llm, port) | settings
        hermes = await stack.enter_async_context(Hermes.prepared(home, config, cold=cold))
        trap = Trap(hermes)
        uncertain = partial(hermes.is_uncertain, grace=GRACE)
        team = tg.supergroup("Team", *tg_people[:3], id=TEAM)
        places: list[Place] = [
            *(TelegramPlace(tg, [person], person.chat, uncertain) for person in tg_people),
            TelegramPlace(tg, tg_people[:3], team, uncertain),
            *(DiscordPlace(dc, [person], person.dm(), uncertain) for person in dc_people),
            DiscordPlace(dc, dc_people[:3], dc.general, uncertain),
            WebPlace(url, "chaos", http),
        ]
        _tap(tg, dc, trap)
        notebook = await stack.enter_async_context(Notebook.open(home, trap.reach))
        model = TalkativeModel(llm, trap.reach, lambda: hermes.life.number)
        yield ChaosRun(tg, dc, hermes, trap, model, notebook, places, url)


def _tap(tg: telegram.FakeTelegram, dc: discord.FakeDiscord, trap: Trap) -> None:
    """A planned fault is asked about every call; this one only listens, and strikes when the trap says so."""
    for method in TAPPED_TELEGRAM:
        reach = partial(trap.reach, f"telegram {method}")
        tg.fail_next(method, telegram.Fault.drop(), times=ALWAYS, when=reach)
    for verb in TAPPED_DISCORD:
        reach = partial(trap.reach, f"discord {verb}")
        dc.fail_next(verb, discord.Fault.drop(), times=ALWAYS, where=reach)


def _configuration(
    tg: telegram.FakeTelegram,
    dc: discord.FakeDiscord,
    tg_people: list[telegram.Person],
    dc_people: list[discord.Person],
    llm: FakeOpenAI,
    port: int,
) -> dict[str, Any]:
    return {
        "model": {
            "name": "openai/test-model",
            "base_url": llm.base_url,
            "api_key": llm.api_key,
            "context_length": llm.context_length,
        },
        "tools": {"enabled": []},
        "plugins": {"enabled": [PLUGIN]},
        "compression": {"enabled": False},
        "limits": {"messages_per_minute": None, "owner_messages_per_minute": None},
        "platforms": {
            "web": {"port": port},
            "telegram": {
                "token": tg.token,
                "base_url": tg.url,
                "allowed_users": [person.id for person in tg_people],
                "allowed_groups": [TEAM],
            },
            "discord": {
                "token": dc.token,
                "api_base": dc.api_base,
                "gateway_url": dc.gateway_url,
                "allowed_users": [person.id for person in dc_people],
                "allowed_groups": [dc.guild.id],
            },
        },
        "logging": {"level": "info", "format": "json"},
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
