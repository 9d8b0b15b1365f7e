"""`hermes setup` for bots: the token is tried and kept apart, and every way it can go wrong has its own sentence."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import discord
import pytest

from gateway.config.loader import SHIPPED, load
from gateway.config.schema import Config
from gateway.platforms.discord.spec import PERMISSIONS
from tests.fakes.discord.server import FakeDiscord, Intent
from tests.fakes.discord.server import Fault as DiscordFault
from tests.fakes.telegram.server import FakeTelegram, Fault
from tests.support.hermes_process import environment
from tests.support.hermes_process import hermes as running_hermes
from tests.support.ordinary_user import hermes
from tests.support.terminal import Terminal

TOKEN = "7000000002:AAF-THIS_MUST_NOT_BE_SEEN"
DISCORD_TOKEN = "MTIz.THIS.MUST-NOT_BE-SEEN"
CLOSED_PORT = "http://127.0.0.1:9"
_QUESTION = "Token, or Enter to leave it out"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current directory without a hermes.yaml."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram(token=TOKEN) as server:
        yield server


@pytest.fixture
async def discord_server() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord(token=DISCORD_TOKEN) as server:
        yield server


def configure(home: Path, *lines: str) -> Path:
    home.mkdir(mode=0o700, exist_ok=True)
    file = home / "hermes.yaml"
    file.write_text("# mine\nplatforms:\n" + "".join(f"  {line}\n" for line in lines))
    return file


def at(server: FakeTelegram | FakeDiscord) -> str:
    """Where the bot's service is, as a line of the configuration."""
    if isinstance(server, FakeTelegram):
        return f"telegram: {{base_url: '{server.url}'}}"
    return f"discord: {{api_base: '{server.api_base}', gateway_url: '{server.gateway_url}'}}"


def run_setup(*options: str, typed: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run setup in a process and check that it never prints a token."""
    result = hermes("setup", *options, typed=typed, **variables)
    for secret in ("MUST", "THIS"):
        assert secret not in result.stdout + result.stderr
    assert "Traceback" not in result.stderr, result.stderr
    return result


async def setup(*options: str, typed: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """The same while a server runs here."""
    return await asyncio.to_thread(run_setup, *options, typed=typed, **variables)


async def written(file: Path | None = None) -> Config:
    return (await asyncio.to_thread(load, file)).config


# -- Telegram ------------------------------------------------------------------------------------------------


async def test_telegram_step_by_step(telegram: FakeTelegram, private_home: Path) -> None:
    """Where to click, the token, the owner's number; then the bot's name, its link and what to do next."""
    file = configure(private_home, at(telegram))
    result = await setup("--only=telegram", typed=f"{TOKEN}\n1001\n")
    assert result.returncode == 0, result.stdout + result.stderr
    for part in ("https://t.me/BotFather", "/newbot", "The bot is @hermes_bot.", "https://t.me/hermes_bot"):
        assert part in result.stdout
    assert "hermes pairing" not in result.stdout
    assert [call.method for call in telegram.calls] == ["getMe"]
    assert (private_home / ".env").read_text() == f"TELEGRAM_BOT_TOKEN='{TOKEN}'\n"
    assert TOKEN not in file.read_text()
    assert file.read_text().startswith("# mine\n")
    settings = (await written(file)).platforms.telegram
    assert settings.token and settings.token.get_secret_value() == TOKEN
    assert (settings.is_on, settings.admins) == (True, ("1001",))


async def test_without_a_number_a_code_lets_the_owner_in(telegram: FakeTelegram, private_home: Path) -> None:
    """No admin is added by accident; the person learns about the code."""
    file = configure(private_home, at(telegram))
    before = file.read_text()
    result = await setup("--only=telegram", typed=f"{TOKEN}\n\n")
    assert result.returncode == 0, result.stdout
    assert "Then it gives you a code; `hermes pairing approve CODE` lets you in." in result.stdout
    assert file.read_text() == before


async def test_a_name_is_no_number(telegram: FakeTelegram, private_home: Path) -> None:
    """It is asked again, with the reason."""
    file = configure(private_home, at(telegram))
    result = await setup("--only=telegram", typed=f"{TOKEN}\n@ada\n1001\n")
    assert (
        "expected a numeric id, because a name can change hands; /whoami tells it; or none"
        in result.stdout + result.stderr
    )
    assert (await written(file)).platforms.telegram.admins == ("1001",)


async def test_a_token_in_an_option(telegram: FakeTelegram, private_home: Path) -> None:
    """Nothing is asked, and the model is left alone."""
    file = configure(private_home, at(telegram))
    result = await setup("--non-interactive", f"--telegram-token={TOKEN}")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "The bot is @hermes_bot." in result.stdout
    assert "Who should answer?" not in result.stdout
    assert (await written(file)).platforms.telegram.is_on


async def test_beside_a_running_hermes(private_home: Path) -> None:
    """A token counts from the next start on, and the person is told."""
    async with running_hermes(private_home, {"logging": {"format": "json"}}) as process:
        done = await setup("--non-interactive", "--offline", "--telegram-token", TOKEN)
        assert "It answers once you restart Hermes, which is running." in done.stdout
        line = await process.logs("config.restart_required")
    assert line["keys"] == ["platforms.telegram.token"]


@pytest.mark.parametrize("asks_for_it", ["enabled: true", "token: '${TELEGRAM_BOT_TOKEN}'"])
async def test_a_file_that_waits_for_the_token(
    telegram: FakeTelegram, private_home: Path, asks_for_it: str
) -> None:
    """Hermes would not start with it yet; that is what the setup is for, by option or by question, with a model or
    without."""
    file = configure(private_home, f"telegram: {{base_url: '{telegram.url}', {asks_for_it}}}")
    whole = await setup("--non-interactive", "--offline", "--model", "embedded/smollm2")
    assert whole.returncode == 0, whole.stderr
    asked = await setup("--only", "telegram", typed="\n")
    assert asked.returncode == 0 and _QUESTION in asked.stdout, "there is none to keep"
    done = await setup("--non-interactive", "--telegram-token", TOKEN)
    assert done.returncode == 0, done.stderr
    assert "The token is good. The bot is @hermes_bot." in done.stdout
    telegram_settings = (await written(file)).platforms.telegram
    assert telegram_settings.is_on and telegram_settings.token


async def test_a_refused_token_is_not_kept(telegram: FakeTelegram, private_home: Path) -> None:
    """Exit code 1, what to do, and nothing written."""
    configure(private_home, at(telegram))
    for options, typed in (
        (("--only=telegram",), "123:AAF-THIS_MUST_NOT_BE_SEEN\n"),
        (("--non-interactive", "--telegram-token=123:AAF-THIS_MUST_NOT_BE_SEEN"), ""),
    ):
        result = await setup(*options, typed=typed)
        assert result.returncode == 1
        assert "The token is not right: Telegram does not know it. Copy it again" in result.stdout
        assert not (private_home / ".env").exists()


def test_what_does_not_look_like_a_token(private_home: Path) -> None:
    """Said before anything is asked of Telegram or written, and without repeating it."""
    for wrong in ("THIS", "123:MUST NOT", "https://t.me/THIS", "12:a/../MUST"):
        result = run_setup("--non-interactive", f"--telegram-token={wrong}")
        assert result.returncode == 2
        assert "expected a token as BotFather gives it" in result.stderr
    assert not private_home.exists()


async def test_no_network_is_no_fault_of_the_token(private_home: Path) -> None:
    """Exit code 0: it is kept, with an honest sentence; Telegram's address holds the token and is not said."""
    file = configure(private_home, f"telegram: {{base_url: '{CLOSED_PORT}'}}")
    result = await setup("--non-interactive", f"--telegram-token={TOKEN}")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "The token could not be tried: 127.0.0.1:9 cannot be reached; check the network." in result.stdout
    assert (await written(file)).platforms.telegram.is_on


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (Fault.error(502, "Bad Gateway"), "is busy or failing (HTTP 502); try again later"),
        (Fault.flood(30), "is busy or failing (HTTP 429); try again later"),
        (Fault.drop(), "cannot be reached; check the network"),
    ],
    ids=["502", "429", "dropped"],
)
async def test_a_service_in_trouble(
    telegram: FakeTelegram, private_home: Path, fault: Fault, sentence: str
) -> None:
    """That says nothing about the token either."""
    configure(private_home, at(telegram))
    telegram.fail_next("getMe", fault, times=9)  # aiohttp tries a dropped request twice
    result = await setup("--non-interactive", f"--telegram-token={TOKEN}")
    assert result.returncode == 0
    assert sentence in result.stdout


async def test_an_address_that_is_no_bot_api(discord_server: FakeDiscord, private_home: Path) -> None:
    """The setting to check is named."""
    configure(private_home, f"telegram: {{base_url: '{discord_server.api_base}'}}")
    result = await setup("--non-interactive", f"--telegram-token={TOKEN}")
    assert "gave an unexpected answer (HTTP 404); check `platforms.telegram.base_url`" in result.stdout


async def test_offline_asks_nobody(telegram: FakeTelegram, private_home: Path) -> None:
    """The token is kept untried."""
    file = configure(private_home, at(telegram))
    result = await setup("--offline", "--only=telegram", typed=f"{TOKEN}\n1001\n")
    assert result.returncode == 0, result.stdout + result.stderr
    assert telegram.calls == []
    assert (await written(file)).platforms.telegram.admins == ("1001",)


async def test_enter_keeps_the_token_that_is_set(telegram: FakeTelegram, private_home: Path) -> None:
    """It is tried again, and copied nowhere."""
    configure(private_home, at(telegram))
    result = await setup("--only=telegram", typed="\n\n", TELEGRAM_BOT_TOKEN=TOKEN)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Enter to keep the one that is set" in result.stdout
    assert "The token is good." in result.stdout
    assert not (private_home / ".env").exists()


def test_enter_leaves_it_out(private_home: Path) -> None:
    """Without a token nothing changes."""
    result = run_setup("--only=telegram", typed="\n")
    assert result.returncode == 0, result.stderr
    assert "Telegram is left as it is." in result.stdout
    assert list(private_home.iterdir()) == []


async def test_what_would_silently_not_be_used(telegram: FakeTelegram, private_home: Path) -> None:
    """Another token in the environment or in the file, and a bot that is switched off, are mentioned."""
    option = f"--telegram-token={TOKEN}"
    configure(private_home, at(telegram))
    result = await setup("--non-interactive", option, TELEGRAM_BOT_TOKEN="123:other")
    assert "the environment has another TELEGRAM_BOT_TOKEN, and that one is used" in result.stdout
    configure(private_home, f"telegram: {{base_url: '{telegram.url}', token: '12:x', enabled: false}}")
    result = await setup("--non-interactive", option)
    assert "names another token in platforms.telegram.token, and that one is used" in result.stdout
    assert "switches the bot off; set platforms.telegram.enabled to true" in result.stdout


def test_the_shipped_file_gets_one_line(private_home: Path) -> None:
    """All comments stay where they are."""
    result = run_setup("--offline", "--only=discord", typed=f"{DISCORD_TOKEN}\n42\n")
    assert result.returncode == 0, result.stdout + result.stderr
    written = (private_home / "hermes.yaml").read_text()
    pairs = list(zip(SHIPPED.read_text().splitlines(), written.splitlines(), strict=True))
    assert [new for old, new in pairs if old != new] == ["    admins: [42]"]
    assert load().config.platforms.discord.admins == ("42",)
    assert load().config.platforms.telegram.admins == ()


# -- Discord -------------------------------------------------------------------------------------------------


async def test_discord_step_by_step(discord_server: FakeDiscord, private_home: Path) -> None:
    """Discord tells whose application it is, so Enter is enough to become its admin."""
    file = configure(private_home, at(discord_server))
    result = await setup("--only=discord", typed=f"{DISCORD_TOKEN}\n\n")
    assert result.returncode == 0, result.stdout + result.stderr
    bot, owner = discord_server.bot, discord_server.guild.owner
    invitation = (
        f"https://discord.com/oauth2/authorize?client_id={bot.id}&scope=bot+applications.commands"
        f"&permissions={PERMISSIONS}"
    )
    for part in (
        "set Install Link to None",
        "switch Public Bot off",
        "Message Content Intent",
        "Reset Token",
        f"The bot is {bot.json()['username']}.",
        invitation,
        f"{owner.id} is {owner.json()['username']}, who owns the application; press Enter only if that is you.",
    ):
        assert part in result.stdout
    assert (private_home / ".env").read_text() == f"DISCORD_BOT_TOKEN='{DISCORD_TOKEN}'\n"
    assert (await written(file)).platforms.discord.admins == (str(owner.id),)


def test_the_invitation_asks_for_what_the_bot_needs() -> None:
    """By name, as the library counts the bits; nothing that could do harm."""
    wanted = {
        "view_channel",
        "send_messages",
        "send_messages_in_threads",
        "attach_files",
        "read_message_history",
    }
    assert {name for name, given in discord.Permissions(PERMISSIONS) if given} == wanted - {
        "view_channel"
    } | {"read_messages"}


async def test_a_missing_intent(private_home: Path) -> None:
    """The token is good and kept; exit code 1, because without it the bot cannot connect."""
    async with FakeDiscord(token=DISCORD_TOKEN, intents=Intent(0)) as server:
        file = configure(private_home, at(server))
        result = await setup("--non-interactive", f"--discord-token={DISCORD_TOKEN}")
        page = f"https://discord.com/developers/applications/{server.bot.id}/bot"
    assert result.returncode == 1
    assert f"its Message Content Intent is off. Switch it on at {page}" in result.stdout
    assert (await written(file)).platforms.discord.is_on


async def test_a_refused_discord_token(discord_server: FakeDiscord, private_home: Path) -> None:
    """People paste the client secret; the sentence says where the token is."""
    configure(private_home, at(discord_server))
    result = await setup("--non-interactive", "--discord-token=THIS-MUST-NOT")
    assert result.returncode == 1
    assert "Discord does not know it. In the Developer Portal, under Bot, press Reset Token" in result.stdout
    assert not (private_home / ".env").exists()


async def test_discord_in_trouble(discord_server: FakeDiscord, private_home: Path) -> None:
    """Also when the first question went well."""
    configure(private_home, at(discord_server))
    discord_server.fail_next("get_application", DiscordFault.error(503))
    result = await setup("--non-interactive", f"--discord-token={DISCORD_TOKEN}")
    assert result.returncode == 0
    assert "is busy or failing (HTTP 503)" in result.stdout


# -- all of it -----------------------------------------------------------------------------------------------


async def test_everything_in_one_go(
    telegram: FakeTelegram, discord_server: FakeDiscord, private_home: Path
) -> None:
    """The model, then each bot if it is wanted."""
    file = configure(private_home, at(telegram), at(discord_server))
    typed = f"embedded\ny\n{TOKEN}\n1001\ny\n{DISCORD_TOKEN}\nnone\n"
    # Not asking the embedded model for a word: it takes seconds to load.
    result = await setup("--offline", typed=typed)
    assert result.returncode == 0, result.stdout + result.stderr
    config = await written(file)
    assert config.model.name == "embedded/smollm2"
    assert (config.platforms.telegram.admins, config.platforms.discord.admins) == (("1001",), ())
    assert config.platforms.telegram.is_on and config.platforms.discord.is_on


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--non-interactive", "--only=telegram"], "--non-interactive needs --telegram-token."),
        (["--non-interactive"], "--non-interactive needs --model, --telegram-token or --discord-token."),
        (["--only=discord", "--model=openai/a"], "--only discord leaves out model"),
        (["--non-interactive", "--telegram-token="], "the Telegram token is empty"),
        (["--discord-token= "], "the Discord token is empty"),
        (["--only=whatsapp"], "'whatsapp' is not one of"),
        (["--non-interactive", "--discord-token=THIS MUST"], "expected a token without spaces"),
    ],
)
def test_wrong_options(private_home: Path, options: list[str], complaint: str) -> None:
    """Exit code 2, and nothing is written."""
    result = run_setup(*options)
    assert result.returncode == 2
    assert complaint in result.stderr
    assert not private_home.exists()


async def test_at_a_terminal_the_token_is_not_shown(telegram: FakeTelegram, private_home: Path) -> None:
    """Neither the wrong one nor the right one; after a refusal the person can try again."""
    configure(private_home, at(telegram))
    command = [sys.executable, "-m", "gateway.cli", "setup", "--only", "telegram"]
    async with Terminal.run(*command, env=environment(private_home)) as terminal:
        await terminal.until(_QUESTION)
        terminal.type("123:AAF-THIS_MUST_NOT_BE_SEEN\r")
        await terminal.until(lambda screen: screen.text.count(_QUESTION) == 2)
        assert "Telegram does not know it." in terminal.screen.text
        terminal.type(f"{TOKEN}\r")
        await terminal.until("Your Telegram id, or none")
        terminal.type("\r")
        assert await terminal.ended() == 0
        assert "MUST" not in terminal.screen.text
    assert f"'{TOKEN}'" in (private_home / ".env").read_text()
