"""Contract harness: one real Hermes with all platforms, on loopback Telegram, Discord and model servers.

All people and groups are created before the start, because the configuration names them by id.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import aiohttp
import yaml

from tests.contract.platforms.scripted_model import PATIENCE, Model
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.discord.server import Person as DiscordUser
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.telegram import server as telegram
from tests.fakes.transcription import FakeTranscription
from tests.support import sandboxed
from tests.support.hermes_process import HermesProcess, WebClient, environment, hermes
from tests.support.warm import HERMES, spawn

TELEGRAM_ADMIN = 1000
TELEGRAM_USERS = range(1001, 1200)
TELEGRAM_GROUPS = range(-1_002_000_000_001, -1_002_000_000_100, -1)
DISCORD_USERS = 60

TOOLS = ["read_file", "write_file", "send_file", "terminal"]

Settings = Literal["usual", "other"]
"""`usual`: the defaults, with `terminal` on. `other`: messages steer, voice is transcribed, each member of a group has
their own conversation, and strangers get no answer."""

OTHER_BOTS = {"groups": "per_person", "group_members": "allowed_users", "pairing": False}


@dataclass
class ContractHarness:
    telegram: telegram.FakeTelegram
    discord: FakeDiscord
    ears: FakeTranscription
    model: Model
    hermes: HermesProcess
    telegram_users: Iterator[int]
    telegram_groups: Iterator[int]
    discord_admin: DiscordUser
    discord_people: Iterator[DiscordUser]
    config: dict[str, Any]
    settings: Settings = "usual"
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def set_up(self, settings: Settings) -> None:
        """Write the configuration for the next start."""
        ears = {"model": "openai/whisper-1", "base_url": self.ears.url, "api_key": "test-key"}
        other = {
            "gateway": {"busy": "steer"},
            "auxiliary": {"transcription": ears},
            "platforms": {"telegram": OTHER_BOTS, "discord": OTHER_BOTS},
        }
        config = _merged(self.config, other) if settings == "other" else self.config
        self.hermes.config_path.write_text(yaml.safe_dump(config))
        self.settings = settings

    async def starts(self) -> None:
        """Start again after `hermes.stop()`."""
        await self.hermes.restart()
        await self.discord.gateway.is_online()
        await self.becomes("telegram", "up")

    async def warms_up(self) -> None:
        """Get a first answer, which takes seconds because the model library is imported."""
        async with WebClient.open(self.hermes.url, "warm-up") as client:
            await client.say("Are you there?")

    async def health(self) -> dict[str, str]:
        """Return the state of each platform from `/healthz`."""
        async with aiohttp.ClientSession() as http, http.get(f"{self.hermes.url}/healthz") as answer:
            platforms = (await answer.json())["platforms"]
        return {name: platform["state"] for name, platform in platforms.items()}

    async def becomes(self, platform: str, state: str) -> None:
        """Poll `/healthz` until the platform has this state."""
        async with asyncio.timeout(PATIENCE):
            while (await self.health())[platform] != state:  # noqa: ASYNC110 - see above
                await asyncio.sleep(0.02)

    async def stores(self, words: str) -> bool:
        """Tell whether the database holds these words."""
        return await asyncio.to_thread(_holds, self.hermes.home / "state.db", words)

    async def cli(self, *arguments: str) -> tuple[int, str]:
        """Run `hermes ...` beside the running process; return exit code and output."""
        process = await spawn(
            *HERMES, "--config", str(self.hermes.config_path), *arguments,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=environment(self.hermes.home),
        )  # fmt: skip
        output, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        return process.returncode or 0, output.decode()


@asynccontextmanager
async def open_harness(
    home: Path,
    server: FakeOpenAI | None = None,
    script: type[Model] = Model,
    different: dict[str, Any] | None = None,
) -> AsyncIterator[ContractHarness]:
    """Start Hermes. `different` is merged into the configuration."""
    async with (
        telegram.FakeTelegram() as tg,
        FakeDiscord() as dc,
        FakeTranscription.open() as ears,
        server or FakeOpenAI() as model,
    ):
        people = [dc.person(f"Person {number}") for number in range(DISCORD_USERS)]
        config = _merged(_configuration(tg, dc, people, model), different or {})
        async with hermes(home, config) as process:
            await dc.gateway.is_online()
            yield ContractHarness(
                telegram=tg,
                discord=dc,
                ears=ears,
                model=script(model),
                hermes=process,
                telegram_users=iter(TELEGRAM_USERS),
                telegram_groups=iter(TELEGRAM_GROUPS),
                discord_admin=people[0],
                discord_people=iter(people[1:]),
                config=config,
            )


def _configuration(
    tg: telegram.FakeTelegram, dc: FakeDiscord, people: list[DiscordUser], model: FakeOpenAI
) -> dict[str, Any]:
    return {
        "model": {
            "name": "openai/test-model",
            "base_url": model.base_url,
            "api_key": model.api_key,
            "context_length": 64_000,
            "vision": True,
        },
        "tools": {"enabled": TOOLS, "sandbox": {"mode": sandboxed.MODE}},
        "platforms": {
            # A port that is known, so that `hermes chat` finds it.
            "web": {"port": _free_port()},
            "telegram": {
                "token": tg.token,
                "base_url": tg.url,
                "allowed_users": list(TELEGRAM_USERS),
                "allowed_groups": list(TELEGRAM_GROUPS),
                "admins": [TELEGRAM_ADMIN],
            },
            "discord": {
                "token": dc.token,
                "api_base": dc.api_base,
                "gateway_url": dc.gateway_url,
                "allowed_users": [person.id for person in people],
                "allowed_groups": [dc.guild.id],
                "admins": [people[0].id],
            },
        },
        # Some answers here never end, and the stop that interrupts them waits as long as it is told to.
        "gateway": {"join_seconds": 0.3, "drain_seconds": 1.0},
        "logging": {"level": "debug"},
    }


def _merged(one: Any, other: Any) -> Any:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other
    return {**one, **{key: _merged(one.get(key), value) for key, value in other.items()}}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _holds(path: Path, words: str) -> bool:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        rows = itertools.chain.from_iterable(
            connection.execute(f'SELECT * FROM "{table}"')
            for table in tables  # the names are the database's own
        )
        return any(words in str(value) for row in rows for value in row)
    finally:
        connection.close()
