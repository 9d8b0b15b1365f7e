"""The real process when its event loop is blocked, and when descriptors run short."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Reply
from tests.fakes.telegram.server import FakeTelegram
from tests.support.foreign_plugins import write_plugin
from tests.support.hermes_process import HermesProcess, WebClient, hermes

FREEZE = """
import time
from gateway.commands import Command


async def freeze(context, rest):
    time.sleep(float(rest))
    return "Done."


def register(ctx):
    ctx.register_command(Command("freeze", "blocks the event loop", freeze, argument="seconds"))
"""
_FEW_DESCRIPTORS = 160
_HALF_OPEN = 220


async def test_a_blocked_event_loop_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service manager gets `WATCHDOG=1` before and after the block. During the block a thread answers `/healthz`
    and the log names the blocking code."""
    home = tmp_path / "home"
    write_plugin(home, FREEZE, "freezer")
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        monkeypatch.setenv("WATCHDOG_USEC", "3000000")
        config = {"plugins": {"enabled": ["freezer"]}, "logging": {"format": "json"}}
        async with asyncio.timeout(90), hermes(home, config) as process:
            await _receive(manager, b"READY=1")
            await _receive(manager, b"WATCHDOG=1")
            async with WebClient.open(process.url, "main") as client:
                freezing = asyncio.create_task(client.send("/freeze 12"))
                blocked = await process.logs("event_loop.blocked")
                assert any("freeze" in line for line in blocked["where"])
                status, health = await _health(process.url)
                assert (status, health["status"]) == (503, "stuck")
                assert "has been blocked for" in health["problem"]
                await process.logs("event_loop.resumed")
                await freezing
            _drain(manager)
            await _receive(manager, b"WATCHDOG=1")
            assert (await _health(process.url))[0] == 200


async def test_the_gateway_raises_its_soft_limit(tmp_path: Path) -> None:
    """A shell often allows 1,024 open files where the system allows many more."""
    process = _LimitedHermes(tmp_path / "home", {}, f"ulimit -Sn {_FEW_DESCRIPTORS}")
    await process.start()
    try:
        limits = await asyncio.to_thread(Path(f"/proc/{process.pid}/limits").read_text)
        row = next(line for line in limits.splitlines() if line.startswith("Max open files"))
        soft, hard = row.split()[3:5]
        assert int(soft) == (65_536 if hard == "unlimited" else min(65_536, int(hard)))
    finally:
        await process.stop()


async def test_half_open_requests_do_not_starve_the_bots(tmp_path: Path) -> None:
    """With more half-open connections than the process may have open files, a bot still answers and the log stays
    short."""
    async with FakeOpenAI() as model, FakeTelegram() as telegram:
        model.script(lambda seen: Reply("Good morning."))
        anna = telegram.person(first_name="Anna")
        limit = f"ulimit -n {_FEW_DESCRIPTORS}"
        process = _LimitedHermes(tmp_path / "home", _config(model, telegram, anna.id), limit)
        await process.start()
        try:
            before = len(process.output)
            with ExitStack() as stack:
                half_open = [await _half_open(process.url, stack) for _ in range(_HALF_OPEN)]
                sent = await anna.says("good morning")
                answer = await anna.chat.answer_after(
                    sent, lambda message: "Good morning." in message.text, timeout=60
                )
                assert "Good morning." in answer.text
                assert any(each is not None for each in half_open)
            errors = [line for line in process.output[before:] if '"level": "error"' in line]
            assert len(errors) <= 1, errors
        finally:
            await process.stop()


class _LimitedHermes(HermesProcess):
    """Hermes started by a shell that runs `limit` first."""

    def __init__(self, home: Path, config: dict[str, Any], limit: str) -> None:
        super().__init__(home, config, cold=True)

        async def limited(*command: str, **options: Any) -> asyncio.subprocess.Process:
            shell = ("sh", "-c", f'{limit} && exec "$@"', "sh")
            return await asyncio.create_subprocess_exec(*shell, *command, **options)

        self._spawn = limited


def _config(model: FakeOpenAI, telegram: FakeTelegram, person: int) -> dict[str, Any]:
    return {
        "model": {
            "name": "openai/test-model",
            "base_url": model.base_url,
            "api_key": model.api_key,
            "context_length": model.context_length,
        },
        "tools": {"enabled": []},
        "platforms": {
            "telegram": {"token": telegram.token, "base_url": telegram.url, "allowed_users": [person]}
        },
        "logging": {"format": "json"},
    }


async def _half_open(url: str, stack: ExitStack) -> socket.socket | None:
    """Open a request whose head never ends; return None if the connection is refused."""
    where = urlsplit(url)
    loop = asyncio.get_running_loop()
    connection = stack.enter_context(socket.socket())
    connection.setblocking(False)
    try:
        async with asyncio.timeout(5):
            await loop.sock_connect(connection, (where.hostname, where.port))
            await loop.sock_sendall(connection, b"GET / HTTP/1.1\r\nHost: x\r\nX-A: ")
    except (OSError, TimeoutError):
        return None
    return connection


async def _receive(manager: socket.socket, word: bytes) -> None:
    loop = asyncio.get_running_loop()
    while await loop.sock_recv(manager, 1_000) != word:
        pass


def _drain(manager: socket.socket) -> None:
    while True:
        try:
            manager.recv(1_000)
        except BlockingIOError:
            return


async def _health(url: str) -> tuple[int, dict[str, Any]]:
    async with aiohttp.ClientSession() as http, http.get(f"{url}/healthz") as response:
        return response.status, await response.json()
