"""`hermes doctor` about bots: is the token good, may the bot read, and who may talk to it?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.access import Pairing
from gateway.store.sqlite.store import SqliteStore
from gateway.types import Author
from tests.fakes.discord.server import FakeDiscord, Intent
from tests.fakes.telegram.server import FakeTelegram
from tests.support.ordinary_user import hermes

TOKEN = "7000000002:AAF-THIS_MUST_NOT_BE_SEEN"
DISCORD_TOKEN = "MTIz.THIS.MUST-NOT_BE-SEEN"
CLOSED_PORT = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current directory without a hermes.yaml."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")


def configure(home: Path, **platforms: Any) -> None:
    """With a model that lacks its key: where bots are asked, no model is loaded as well."""
    home.mkdir(mode=0o700, exist_ok=True)
    content = {"model": {"name": "openai/x"}, "platforms": {"web": {"enabled": False}, **platforms}}
    (home / "hermes.yaml").write_text(yaml.safe_dump(content))


def about_bots(*options: str, **variables: str) -> tuple[int, list[str]]:
    """Return the exit code and the lines about bots, which never contain a token."""
    result = hermes("doctor", *options, **variables)
    assert "MUST" not in result.stdout + result.stderr
    assert result.stderr == ""
    lines = [f"{line[:5].strip()} {line[5:]}" for line in result.stdout.splitlines()]
    return result.returncode, [line for line in lines if line.split()[1].startswith(("telegram", "discord"))]


def offline() -> tuple[int, list[str]]:
    """All but the bots is in order, so the exit code is theirs."""
    return about_bots("--offline", OPENAI_API_KEY="k")


async def asked(**variables: str) -> list[str]:
    _, lines = await asyncio.to_thread(about_bots, **variables)
    return lines


def test_without_bots_there_is_nothing_to_say(private_home: Path) -> None:
    """A platform without a token is off, which is fine."""
    configure(private_home)
    assert offline() == (0, [])


async def test_bots_that_work(private_home: Path) -> None:
    """Name, who may talk to it, how many were approved; each bot by its own name."""
    store = await SqliteStore.open(private_home / "state.db")
    pairing = Pairing(store.access)
    for number, platform in enumerate(("telegram", "telegram", "discord", "telegram/work"), start=1):
        code = await pairing.request(platform, Author(str(number), "Ada"))
        assert code and await pairing.approve(code.code, by="test")
    await store.close()
    async with FakeTelegram(token=TOKEN) as telegram, FakeDiscord(token=DISCORD_TOKEN) as discord:
        second = telegram.add_bot("7000000003:AAF-THIS_MUST_NOT_EITHER", "work_bot").token
        work = {"token": second, "base_url": telegram.url, "allowed_groups": [-5], "pairing": False}
        configure(
            private_home,
            telegram={
                "base_url": telegram.url,
                "allowed_users": [1, 2],
                "admins": [2],
                "bots": {"work": work},
            },
            discord={"token": DISCORD_TOKEN, "api_base": discord.api_base},
        )
        lines = await asked(TELEGRAM_BOT_TOKEN=TOKEN)
        name = discord.bot.json()["username"]
    assert lines == [
        "ok telegram: the token is good, the bot is @hermes_bot",
        "ok telegram: allowed users 2, allowed groups 0, people approved 2; newcomers get a code",
        "ok telegram/work: the token is good, the bot is @work_bot",
        "ok telegram/work: allowed users 0, allowed groups 1, people approved 1; newcomers get no answer",
        f"ok discord: the token is good, the bot is {name}",
        "ok discord: allowed users 0, allowed groups 0, people approved 1; newcomers get a code",
    ]


async def test_refused_tokens(private_home: Path) -> None:
    """What to do, and where the new token goes."""
    async with FakeTelegram() as telegram, FakeDiscord() as discord:
        configure(
            private_home,
            telegram={"bots": {"work": {"token": TOKEN, "base_url": telegram.url}}},
            discord={"token": DISCORD_TOKEN, "api_base": discord.api_base},
        )
        lines = await asked()
    assert lines[0].startswith("fail telegram/work: The token is not right: Telegram does not know it.")
    assert lines[0].endswith("Then set platforms.telegram.bots.work.token")
    assert lines[2].startswith("fail discord: The token is not right: Discord does not know it.")
    assert lines[2].endswith("Then run `hermes setup --only discord`, or set DISCORD_BOT_TOKEN")


def test_a_service_that_cannot_be_reached(private_home: Path) -> None:
    """Another sentence: the token may be fine."""
    configure(
        private_home,
        telegram={"token": TOKEN, "base_url": CLOSED_PORT},
        discord={"token": DISCORD_TOKEN, "api_base": f"{CLOSED_PORT}/api/v10"},
    )
    _, lines = about_bots()
    for platform, line in (("telegram", lines[0]), ("discord", lines[2])):
        expected = f"fail {platform}: The token could not be tried: 127.0.0.1:9 cannot be reached; check the network."
        assert line == expected


async def test_a_missing_intent(private_home: Path) -> None:
    """The token is good and the bot still could not connect."""
    async with FakeDiscord(token=DISCORD_TOKEN, intents=Intent.GUILD_MEMBERS) as discord:
        configure(private_home, discord={"token": DISCORD_TOKEN, "api_base": discord.api_base})
        lines = await asked()
    assert lines[0].startswith("ok discord: the token is good")
    assert lines[1].startswith("fail discord: It may not read messages: its Message Content Intent is off.")


def test_nobody_may_talk_to_it(private_home: Path) -> None:
    """Warn about a bot that has no users and no pairing."""
    configure(
        private_home,
        telegram={"token": TOKEN, "pairing": False},
        discord={"bots": {"work": {"token": DISCORD_TOKEN, "pairing": False}}},
    )
    code, lines = offline()
    assert code == 0
    assert lines == [
        "ok telegram: the token was not checked (--offline)",
        "warn telegram: no one may talk to the bot; set allowed_users, allowed_groups or `pairing: true` in "
        "platforms.telegram",
        "ok discord/work: the token was not checked (--offline)",
        "warn discord/work: no one may talk to the bot; set allowed_users, allowed_groups or `pairing: true` in "
        "platforms.discord.bots.work",
    ]


def test_on_without_a_token(private_home: Path) -> None:
    """Found with the configuration: it could not start."""
    configure(private_home, telegram={"enabled": True})
    result = hermes("doctor", "--offline")
    assert result.returncode == 1
    assert "platforms.telegram.token: expected a token, because enabled is true" in result.stdout


def test_a_bot_that_is_off(private_home: Path) -> None:
    """Nothing is said about it."""
    configure(private_home, telegram={"token": TOKEN}, discord={"enabled": False, "token": DISCORD_TOKEN})
    _, lines = offline()
    assert lines
    assert not any("discord" in line for line in lines)


def test_a_webhook_without_a_secret(private_home: Path) -> None:
    """The configuration check finds it: strangers could write to the bot in Telegram's name."""
    configure(private_home, telegram={"token": TOKEN, "webhook": {"url": "https://bot.example/hook"}})
    result = hermes("doctor", "--offline")
    assert result.returncode == 1
    assert "platforms.telegram.webhook.secret: expected a secret" in result.stdout
    assert "MUST" not in result.stdout
