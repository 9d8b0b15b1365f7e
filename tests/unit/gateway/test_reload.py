"""Changes of settings in the real process, by SIGHUP or by the file."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from structlog.testing import capture_logs

from gateway.config.loader import load
from gateway.reload import LiveConfig
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.telegram.server import FakeTelegram
from tests.support import warm
from tests.support.hermes_process import HermesProcess, WebClient, environment, hermes
from tests.support.warm import HERMES
from tests.support.watch import until

ADA, BOB = 4711, 4712


class ReloadHarness:
    """A running gateway with one Telegram bot, and the configuration it was started with."""

    def __init__(self, process: HermesProcess, telegram: FakeTelegram, config: dict[str, Any]) -> None:
        self.process = process
        self.config = config
        self.ada = telegram.person(id=ADA)
        self.bob = telegram.person(id=BOB, first_name="Bob")

    def change(self, section: str, *, hang_up: bool = False, **values: Any) -> None:
        """Edit the file; `platforms.telegram` is a section, too."""
        at = self.config
        for name in section.split("."):
            at = at.setdefault(name, {})
        at.update(values)
        self.process.configure(self.config)
        if hang_up:
            self.process.send(signal.SIGHUP)

    @contextlib.asynccontextmanager
    async def logging(self, event: str) -> AsyncIterator[dict[str, Any]]:
        """Wait until the log has this line."""
        seen = len(self.process.output)
        line: dict[str, Any] = {}
        yield line
        line |= await self.process.logs(event, after=seen)


def _free_port() -> int:
    """Return a port that `hermes status` can ask."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextlib.asynccontextmanager
async def running(home: Path) -> AsyncIterator[ReloadHarness]:
    async with FakeOpenAI() as model, FakeTelegram() as telegram:
        bot = {"token": telegram.token, "base_url": telegram.url, "allowed_users": [ADA], "pairing": False}
        config: dict[str, Any] = {
            "model": {"name": "openai/test-model", "base_url": model.base_url, "api_key": model.api_key},
            "platforms": {"web": {"port": _free_port()}, "telegram": bot},
            "logging": {"format": "json"},
        }
        async with hermes(home, copy.deepcopy(config)) as process:
            yield ReloadHarness(process, telegram, config)


async def test_changes_while_hermes_runs(tmp_path: Path) -> None:
    """Access and limits change at once; a broken file changes nothing; other keys wait for a restart."""
    async with running(tmp_path / "home") as harness:
        process, ada, bob = harness.process, harness.ada, harness.bob
        await ada.chat.answer_after(await ada.says("Hello"))

        # The owner takes Ada from the list and saves. Nobody restarts anything, and Bob is answered now.
        async with harness.logging("config.reloaded") as line:
            harness.change("platforms.telegram", allowed_users=[BOB])
        assert line["changed"] == {"platforms.telegram.allowed_users": [str(BOB)]}
        async with harness.logging("chat.refused") as line:
            await ada.says("And me?")
        assert line["author"] == str(ADA)
        await bob.chat.answer_after(await bob.says("Hello"))

        # SIGHUP does not wait for the next look at the file.
        async with harness.logging("config.reloaded") as line:
            harness.change("limits", messages_per_minute=1, hang_up=True)
        assert line["changed"] == {"limits.messages_per_minute": 1}
        await bob.chat.answer_after(await bob.says("One"))
        await bob.chat.answer_after(
            await bob.says("Two"), lambda message: "Hermes accepts 1 a minute" in message.text
        )

        # Who becomes an admin sees the admins' commands behind the `/` button.
        async with harness.logging("telegram.menu_changed") as line:
            harness.change("platforms.telegram", admins=[BOB], hang_up=True)
        assert line["scope"] == "chat"

        # A slip: what `hermes config check` says is in the log, and Bob's list still counts.
        good = copy.deepcopy(harness.config)
        async with harness.logging("config.rejected") as line:
            harness.change("limits", messages_per_minuet=500, hang_up=True)
        [problem] = line["problems"]
        assert "limits.messages_per_minuet: unknown key; did you mean limits.messages_per_minute?" in problem
        checked = await asyncio.to_thread(_cli, process, "config", "check")
        assert checked.returncode == 2 and problem in checked.stderr
        assert problem in await _status(process, "refused")
        looked = await asyncio.to_thread(_cli, process, "status", "--once")
        assert f"so the earlier settings stay in effect: {problem}" in looked.stdout
        async with harness.logging("chat.refused"):
            await ada.says("Now?")

        # A name that does not exist is found as well, though only the next start would use it.
        harness.config = copy.deepcopy(good)
        async with harness.logging("config.rejected") as line:
            harness.change("context", engine="compresor", hang_up=True)
        assert "There is no engine `compresor`" in line["problems"][0]

        # Some things need a restart. They are named, without their values, as long as it has not come.
        harness.config = copy.deepcopy(good)
        async with harness.logging("config.restart_required") as line:
            harness.change("model", name="openai/other", api_key="sk-another-key-altogether", hang_up=True)
        assert line["keys"] == ["model.name", "model.api_key"]
        told = await _status(process, "before")
        assert "in effect after a restart: model.name, model.api_key" in told
        assert "openai/test-model" in told
        looked = await asyncio.to_thread(_cli, process, "status", "--once")
        assert "changed, but need a restart: model.name, model.api_key" in looked.stdout
        assert "sk-another-key" not in "".join(process.output)

        # Taken back, nothing waits any more.
        harness.config = copy.deepcopy(good)
        async with harness.logging("config.unchanged"):
            harness.process.configure(good)
            process.send(signal.SIGHUP)
        after = await _status(process, "after")
        assert "next start" not in after and "cannot be used" not in after


def _cli(process: HermesProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run(
        [*HERMES, "--config", str(process.config_path), *arguments], env=environment(process.home)
    )


async def _status(process: HermesProcess, chat: str) -> str:
    """Return what the owner reads."""
    async with WebClient.open(process.url, chat) as owner:
        await owner.send("/status")
        async for event in owner.events():
            if event["type"] == "Notice":
                return str(event["text"])
    raise AssertionError("no answer")


async def test_the_log_and_the_prompt(tmp_path: Path) -> None:
    """A new level applies to existing loggers; the log does not show texts."""
    async with FakeOpenAI() as model:
        config: dict[str, Any] = {
            "model": {"name": "openai/test-model", "base_url": model.base_url, "api_key": model.api_key},
            "logging": {"format": "json", "level": "error"},
        }
        async with hermes(tmp_path / "home", config) as process:
            harness = ReloadHarness(process, FakeTelegram(), config)
            async with WebClient.open(process.url, "first") as ada:
                await ada.say("Hello")
            assert "turn.done" not in "".join(process.output)

            async with harness.logging("config.reloaded") as line:
                harness.change("logging", level="info", hang_up=True)
            assert line["changed"] == {"logging.level": "info"}
            async with WebClient.open(process.url, "first") as ada, harness.logging("turn.done"):
                await ada.say("Hello again")

            async with harness.logging("config.reloaded") as line:
                harness.change("agent", system_prompt="You are a pirate.", hang_up=True)
            assert line["changed"] == {"agent.system_prompt": "**********"}
            async with WebClient.open(process.url, "second") as ada:
                await ada.say("Hello")
            assert "You are a pirate." in model.requests[-1].body["messages"][0]["content"]

            async with harness.logging("config.rejected") as line:
                process.config_path.unlink()
            assert "cannot be read: No such file" in line["problems"][0]


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid of util-linux")
@pytest.mark.parametrize("nohup", [False, True])
async def test_a_terminal_that_is_closed(tmp_path: Path, nohup: bool) -> None:
    """Hermes stops in good order; `nohup` keeps it running."""
    config = tmp_path / "hermes.yaml"
    config.write_text(
        yaml.safe_dump({"platforms": {"web": {"port": 0}}, "model": {"name": "embedded/smollm2"}})
    )
    window, inside = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        "setsid", "--ctty", *(["nohup"] if nohup else []), *HERMES, "--config", str(config), "run",
        stdin=inside, stdout=PIPE, stderr=STDOUT, env=environment(tmp_path / "home"),
    )  # fmt: skip
    os.close(inside)
    assert process.stdout
    try:
        url = ""
        async for line in process.stdout:
            if found := re.search(rb"http://127\.0\.0\.1:\d+", line):
                url = found[0].decode()
            if b"Ctrl-C stops" in line:
                break
        os.close(window)
        if nohup:
            async with aiohttp.ClientSession() as http, http.get(f"{url}/healthz") as answer:
                assert answer.status == 200
            process.terminate()
        assert b"gateway.stopping" in await asyncio.wait_for(process.stdout.read(), 30)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_replaced_engine_keeps_no_other_change_from_counting(private_home: Path) -> None:
    """A changed name that does not exist is still refused."""
    await asyncio.to_thread(private_home.mkdir)
    file = private_home / "hermes.yaml"
    settings_in_file: dict[str, Any] = {
        "context": {"engine": "nosuch"},
        "tools": {"enabled": ["todo"]},
        "platforms": {"telegram": {"token": "1:a", "allowed_users": [ADA, BOB]}},
    }
    await asyncio.to_thread(file.write_text, yaml.safe_dump(settings_in_file))
    settings = await asyncio.to_thread(lambda: LiveConfig(load(file)))
    applied = asyncio.Event()
    settings.subscribe(lambda new: applied.set())
    watching = asyncio.create_task(settings.watch())
    try:
        settings_in_file["tools"]["enabled"] = []
        settings_in_file["platforms"]["telegram"]["allowed_users"] = [ADA]
        await asyncio.to_thread(file.write_text, yaml.safe_dump(settings_in_file))
        with capture_logs() as logs:
            settings.request_reload()
            await until(lambda: any(line["event"].startswith("config.") for line in logs))
            assert applied.is_set(), logs
            assert settings.config.platforms.telegram.allowed_users == (str(ADA),)
            settings_in_file["context"]["engine"] = "nosuch_either"
            await asyncio.to_thread(file.write_text, yaml.safe_dump(settings_in_file))
            settings.request_reload()
            await until(lambda: bool(settings.rejected))
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
