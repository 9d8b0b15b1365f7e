"""A chat platform from one folder outside the tree: the example of `docs/platforms.md`, in a real Hermes."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.fakes.acme import TOKEN, FakeAcme
from tests.fakes.openai.server import FakeOpenAI
from tests.support import warm
from tests.support.hermes_process import HermesProcess, hermes
from tests.support.warm import HERMES

ADA, BEN, OWNER = "U02AB3", "U09XY1", "W7OWNER"
TEAM, ELSEWHERE = "C77", "C78"
PAGE = (Path(__file__).parents[3] / "docs" / "platforms.md").read_text(encoding="utf-8")
FILES = re.findall(r"^```\w+\n# \$HERMES_HOME/(\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def install(home: Path) -> None:
    """Write the files of the page into the state directory."""
    assert [name for name, _ in FILES] == ["plugins/acme/plugin.yaml", "plugins/acme/__init__.py"]
    home.mkdir(mode=0o700, exist_ok=True)
    for name, text in FILES:
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def configuration(acme: FakeAcme, model: FakeOpenAI) -> dict[str, Any]:
    return {
        "model": {"name": "openai/test-model", "base_url": model.base_url, "api_key": model.api_key},
        "plugins": {"enabled": ["acme"]},
        "platforms": {
            "web": {"port": 0},
            "acme": {"host": "127.0.0.1", "port": acme.port, "allowed_groups": [TEAM]},
        },
        "logging": {"format": "json"},
    }


def settings_in(file: Path) -> dict[str, Any]:
    settings: dict[str, Any] = yaml.safe_load(file.read_text())
    return settings


def write(file: Path, settings: dict[str, Any]) -> None:
    file.write_text(yaml.safe_dump(settings))


async def cli(*arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    done = await asyncio.to_thread(warm.run, [*HERMES, *arguments], typed=typed)
    assert "Traceback" not in done.stderr, done.stderr
    assert TOKEN not in done.stdout + done.stderr
    return done


@pytest.fixture
async def acme() -> AsyncIterator[FakeAcme]:
    async with FakeAcme() as server:
        yield server


@pytest.fixture
async def file(private_home: Path, acme: FakeAcme) -> AsyncIterator[Path]:
    """The configuration file of an installation with the plugin, and with a model that answers."""
    install(private_home)
    async with FakeOpenAI() as model:
        path = private_home / "hermes.yaml"
        path.write_text(yaml.safe_dump(configuration(acme, model)))
        yield path


@asynccontextmanager
async def running(file: Path) -> AsyncIterator[HermesProcess]:
    async with hermes(file.parent, settings_in(file)) as process:
        yield process


async def test_setup_and_doctor(file: Path, acme: FakeAcme) -> None:
    """Setup asks for the token, tries it and names the admin; doctor tries the token again."""
    refused = await cli("setup", "--only=acme", "--token=wrong", "--non-interactive")
    assert refused.returncode == 1
    assert "Acme does not know it." in refused.stdout and "Nothing was changed." in refused.stdout

    done = await cli("setup", "--only=acme", typed=f"{TOKEN}\nno id\n{OWNER}\n")
    assert done.returncode == 0, done.stderr
    for part in (
        "Open your Acme settings, press New bot and copy its token.",
        "expected an id without spaces",
        f"Wrote platforms.acme.admins: {OWNER}",
        "The token is good. The bot is acme_bot.",
        "Write to it at https://127.0.0.1/acme_bot",
    ):
        assert part in done.stdout + done.stderr
    assert "ACME_BOT_TOKEN" in (file.parent / ".env").read_text()
    assert settings_in(file)["platforms"]["acme"]["admins"] == [OWNER]

    assert (await cli("config", "check")).returncode == 0
    doctor = await cli("doctor", "--offline")
    assert re.search(r"^ok +acme: the token was not checked \(--offline\)$", doctor.stdout, re.MULTILINE)
    doctor = await cli("doctor")
    assert re.search(r"^ok +acme: the token is good, the bot is acme_bot$", doctor.stdout, re.MULTILINE)
    assert "acme: allowed users 1, allowed groups 1, people approved 0; newcomers get a code" in doctor.stdout


async def test_from_a_stranger_to_a_group(file: Path, acme: FakeAcme) -> None:
    """Pairing, commands, groups, a lost connection and a revocation, with ids that are not numbers."""
    settings = settings_in(file)
    settings["platforms"]["acme"]["admins"] = [OWNER]
    write(file, settings)
    (file.parent / ".env").write_text(f"ACME_BOT_TOKEN={TOKEN}\n")
    async with running(file) as process:
        assert any(re.match(r"Acme +acme_bot", line) for line in process.output), process.output
        async with aiohttp.ClientSession() as http, http.get(f"{process.url}/healthz") as answer:
            assert (await answer.json())["platforms"]["acme"]["state"] == "up"

        # A stranger gets a code, the admin a question with buttons. One stranger is approved by the command line.
        await acme.says(ADA, "Hello?")
        welcome = await acme.answer(f"D-{ADA}", "hermes pairing approve")
        assert f"`{ADA}`" in welcome.text
        code = re.search(r"approve (\w+)", welcome.text)
        assert code
        question = await acme.answer(f"D-{OWNER}", f"(id {ADA})")
        assert [label for label, _ in question.buttons] == ["Approve", "Deny"]
        waiting = await cli("pairing", "list")
        assert ADA in waiting.stdout and "acme" in waiting.stdout
        approved = await cli("pairing", "approve", code[1])
        assert f"(acme {ADA}) may talk to the bot now." in approved.stdout
        before = len(acme.chats[f"D-{ADA}"])
        await acme.says(ADA, "Hello again")
        await acme.until(lambda: len(acme.chats[f"D-{ADA}"]) > before)

        # The other stranger is approved by the admin's button.
        await acme.says(BEN, "Me too", name="Ben")
        question = await acme.answer(f"D-{OWNER}", f"(id {BEN})")
        await acme.presses(OWNER, question, "Approve")
        await acme.answer(f"D-{BEN}", "You may talk to me now.")

        # Commands, over a connection that was lost meanwhile.
        acme.drop_connections()
        await acme.says(ADA, "/whoami")
        assert f"`{ADA}`" in (await acme.answer(f"D-{ADA}", "Your id")).text

        # In an allowed group the bot answers everyone who addresses it; in another group no one.
        await acme.says("U5", "just talking", name="Eve", group=TEAM, to_bot=False)
        await acme.says("U5", "in a group that is not listed", name="Eve", group=ELSEWHERE)
        await acme.says("U5", "/whoami", name="Eve", group=TEAM)
        answer_there = await acme.answer(TEAM, "This group")
        assert f"`{TEAM}`" in answer_there.text
        await acme.all_acknowledged()
        assert len(acme.chats[TEAM]) == 1 and ELSEWHERE not in acme.chats

        # What was approved is taken back.
        assert (await cli("pairing", "revoke", "acme", ADA)).returncode == 0
        seen = len(acme.chats[f"D-{ADA}"])
        await acme.says(ADA, "Still there?")
        await acme.answer(f"D-{ADA}", "hermes pairing approve", after=seen)


async def test_changes_while_it_runs(file: Path, acme: FakeAcme) -> None:
    """The lists of a plugin's platform are live, like those of Telegram and Discord."""
    (file.parent / ".env").write_text(f"ACME_BOT_TOKEN={TOKEN}\n")
    async with running(file) as process:
        settings = settings_in(file)
        settings["platforms"]["acme"]["allowed_users"] = [BEN]
        seen = len(process.output)
        process.configure(settings)
        line = await process.logs("config.reloaded", after=seen)
        assert line["changed"] == {"platforms.acme.allowed_users": [BEN]}
        await acme.says(BEN, "/whoami", name="Ben")
        await acme.answer(f"D-{BEN}", BEN)

        settings["platforms"]["acme"]["prot"] = 1
        seen = len(process.output)
        process.configure(settings)
        line = await process.logs("config.rejected", after=seen)
        assert "platforms.acme.prot: unknown key; did you mean platforms.acme.port?" in line["problems"][0]


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"acme": {"prot": 1}}, "platforms.acme.prot: unknown key; did you mean platforms.acme.port?"),
        (
            {"acme": {"allowed_users": ["a b"]}},
            "platforms.acme.allowed_users[0]: expected an id without spaces",
        ),
        (
            {"acme": {"enabled": True}},
            "platforms.acme.token: expected a token, because enabled is true; set ACME_BOT",
        ),
        ({"acne": {"port": 1}}, "platforms.acne: unknown key; did you mean platforms.acme?"),
    ],
)
async def test_mistakes_in_the_section(file: Path, section: dict[str, Any], problem: str) -> None:
    """`config check` and doctor name the key; commands that only read are not disturbed."""
    settings = settings_in(file)
    settings["platforms"] = {"web": {"port": 0}, **section}
    write(file, settings)
    checked = await cli("config", "check")
    assert checked.returncode == 2 and problem in checked.stderr
    assert problem in (await cli("doctor", "--offline")).stdout
    assert (await cli("plugins", "list")).returncode == 0


async def test_secrets_of_the_section_are_masked(file: Path) -> None:
    """`config show` runs no plugin, so it goes by the name of the key."""
    settings = settings_in(file)
    settings["platforms"]["acme"]["token"] = TOKEN
    write(file, settings)
    shown = await cli("config", "show")
    assert "token: '**********'" in shown.stdout
