"""`hermes doctor` finds each mistake that people make: the sentence names the remedy, and the exit code is 1."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from email.utils import formatdate
from pathlib import Path

import pytest
from aiohttp import web

from gateway.store.sqlite.store import SqliteStore
from tests.support.hermes_process import environment
from tests.support.ordinary_user import hermes
from tests.support.sandboxed import NEEDS_SANDBOX
from tests.support.warm import HERMES

TOKEN = "7000000002:AAF-THIS_MUST_NOT_BE_SEEN"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current directory without a hermes.yaml."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")


@pytest.fixture
def home(private_home: Path) -> Path:
    private_home.mkdir(mode=0o700)
    return private_home


def failures(home: Path, text: str, *options: str, **variables: str) -> list[str]:
    """What doctor finds wrong with this configuration; warnings do not count."""
    (home / "hermes.yaml").write_text(text or "platforms: {web: {port: 0}}\n")
    return examined(*options, **variables)


def examined(*options: str, **variables: str) -> list[str]:
    result = hermes("doctor", *(options or ["--offline"]), **variables)
    assert result.stderr == "" and "MUST" not in result.stdout
    found = [line[5:] for line in result.stdout.splitlines() if line.startswith("fail ")]
    assert result.returncode == (1 if found else 0)
    return found


def bot(settings: str) -> str:
    return f"platforms: {{web: {{port: 0}}, telegram: {{token: '{TOKEN}', {settings}}}}}\n"


MISTAKES = {
    "a bracket that is not closed": ("model: [\n", ["hermes.yaml:2: not valid YAML"]),
    "a tab": ("model:\n\tname: x\n", ["a line begins with a tab; use spaces"]),
    "values that cannot be": (
        f"""
modle: {{name: x}}
model: {{api_key: '${{MY_KEY}}'}}
platforms:
  web: {{host: 0.0.0.0}}
  telegram:
    token: '{TOKEN}'
    allowed_users: ['@ada', -1001]
    allowed_groups: [1001]
    webhook: {{url: 'https://x.example/t'}}
  discord: {{enabled: true}}
""",
        [
            "unknown key; did you mean model?",
            "the variable MY_KEY is not set; set it, or give a default",
            "set a token, or listen on 127.0.0.1",
            "expected a numeric id, because a name can change hands; /whoami tells it",
            "groups go to allowed_groups",
            "expected a number that begins with a minus",
            "expected a secret, because webhook.url is set",
            "expected a token, because enabled is true; set DISCORD_BOT_TOKEN or enabled: false",
        ],
    ),
    "names and tokens of what there is not": (
        f"""
model: {{name: anthropic/claude-sonnet-4-5}}
tools: {{enabled: [todoo]}}
context: {{engine: lmc}}
plugins: {{enabled: [weather]}}
platforms:
  web: {{port: 0}}
  telegram:
    token: AAF-THIS_MUST_NOT_BE_SEEN
    bots: {{work: {{token: 'THIS MUST'}}, a: {{token: '{TOKEN}'}}, b: {{token: '{TOKEN}'}}}}
""",
        [
            "There is no tool `todoo`. Did you mean `todo`?",
            "the plugin weather cannot be loaded: broken: There is no `weather` in",
            "There is no engine `lmc`. Did you mean `lcm`?",
            "telegram/a and telegram/b have the same token; each bot needs its own",
            "Copy it again and run `hermes setup --only telegram`, or set TELEGRAM_BOT_TOKEN",
            "telegram/work: expected a token as BotFather gives it, such as 123456789:AAF-x2b…. Copy it again and set "
            "platforms.telegram.bots.work.token",
            "anthropic/claude-sonnet-4-5 needs a key; set ANTHROPIC_API_KEY, or run `hermes setup`",
        ],
    ),
}


@pytest.mark.parametrize(("text", "sentences"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_in_the_file(home: Path, text: str, sentences: list[str]) -> None:
    """One line for each, with what to do, and none besides."""
    found = failures(home, text)
    missing = [sentence for sentence, line in zip(sentences, found, strict=True) if sentence not in line]
    assert not missing, found


@pytest.mark.parametrize("below", ["home", "not/yet/there"])
def test_a_state_directory_that_cannot_be_made(tmp_path: Path, below: str) -> None:
    """Its parent, or what there is of the way to it, is not writable; nothing is made by looking."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    home = closed / below
    found = examined(HERMES_HOME=str(home))
    remedy = "change its permissions, or set HERMES_HOME"
    assert f"the state directory {home} cannot be created: {closed} is not writable; {remedy}" in found
    assert list(closed.iterdir()) == []


def test_a_state_directory_below_a_file(tmp_path: Path) -> None:
    """A slip in HERMES_HOME."""
    (tmp_path / "file").write_text("")
    assert any("HERMES_HOME" in line for line in examined(HERMES_HOME=str(tmp_path / "file" / "home")))


def test_a_database_of_a_newer_hermes(home: Path) -> None:
    """After a downgrade; it is left alone."""
    asyncio.run(_make_database(home / "state.db"))
    with sqlite3.connect(home / "state.db") as connection:
        connection.execute("UPDATE schema_migrations SET version = version + 9000")
    connection.close()
    (found,) = failures(home, "")
    assert "was written by a newer Hermes; upgrade Hermes" in found


async def _make_database(path: Path) -> None:
    await (await SqliteStore.open(path)).close()


@NEEDS_SANDBOX
def test_a_terminal_without_bubblewrap(home: Path) -> None:
    """The package is named. Bubblewrap itself makes a place in which there is none."""
    (home / "hermes.yaml").write_text("tools: {enabled: [terminal]}\nplatforms: {web: {port: 0}}\n")
    program = shutil.which("bwrap") or ""
    without = [program, "--dev-bind", "/", "/", "--bind", "/dev/null", program, "--", *HERMES]
    done = subprocess.run(
        [*without, "doctor", "--offline"], env=environment(home), capture_output=True, text=True, timeout=60
    )
    (found,) = [line for line in done.stdout.splitlines() if line.startswith("fail ")]
    assert "the sandbox of the terminal does not work" in found and "bubblewrap" in found
    assert done.returncode == 1


def test_a_webhook_whose_port_is_taken(home: Path) -> None:
    """By another program: the setting is named."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        hook = f"webhook: {{url: 'https://x.example/t', secret: abcdefgh12345678, port: {port}}}"
        (found,) = failures(home, bot(hook))
    assert f"cannot listen on 127.0.0.1:{port} for the webhook (it is in use by another program)" in found
    assert found.endswith("set platforms.telegram.webhook.host and port")


@pytest.fixture
def small_disk(home: Path) -> Iterator[Path]:
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", str(home)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root in a real system can mount a small disk")
    yield home
    subprocess.run(["umount", "--lazy", str(home)], check=True)


def test_a_disk_that_is_nearly_full(small_disk: Path) -> None:
    """Before messages are refused for it."""
    (found,) = failures(small_disk, "")
    assert f"MB are free on the disk of {small_disk}; free some" in found


@pytest.mark.parametrize(("hours", "which"), [(-3, "180 minutes fast"), (3, "180 minutes slow")])
async def test_a_clock_that_is_far_off(home: Path, hours: int, which: str) -> None:
    """By the service's own clock, which comes with its answer."""
    async with _telegram(time.time() + hours * 3600) as url:
        text = bot(f"base_url: '{url}'") + "model: {name: openai/x}\n"
        found = await asyncio.to_thread(failures, home, text, "--repair")
    assert any(which in line and "timedatectl set-ntp true" in line for line in found), found


async def test_a_clock_that_is_right(home: Path) -> None:
    """A second of clock difference is fine."""
    async with _telegram(time.time()) as url:
        text = bot(f"base_url: '{url}'") + "model: {name: openai/x}\n"
        found = await asyncio.to_thread(failures, home, text, "--repair")
    assert found == ["openai/x needs a key; set OPENAI_API_KEY, or run `hermes setup`"]


@asynccontextmanager
async def _telegram(now: float) -> AsyncIterator[str]:
    """As much of the Bot API as a probe asks for, with a clock of its own."""

    async def get_me(request: web.Request) -> web.Response:
        body = {"ok": True, "result": {"id": 1, "is_bot": True, "username": "hermes_bot"}}
        return web.json_response(text=json.dumps(body), headers={"Date": formatdate(now, usegmt=True)})

    app = web.Application()
    app.router.add_get("/bot{token}/getMe", get_me)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
