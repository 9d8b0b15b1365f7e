"""`hermes status`: from the running gateway, and from the store where none runs."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from pathlib import Path

import aiohttp
import pytest
import yaml

from agent.llm import Usage
from agent.messages import Message
from agent.store import Address, Compaction, Split
from gateway.process_lock import hold_lock, is_running
from gateway.store.sqlite.store import SqliteStore
from tests.support import warm
from tests.support.hermes_process import environment, hermes
from tests.support.terminal import Terminal
from tests.support.warm import HERMES

TOKEN = "a-token-of-sixteen-and-more"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def status(*arguments: str, config: Path | None = None) -> subprocess.CompletedProcess[str]:
    chosen = ["--config", str(config)] if config else []
    return warm.run([*HERMES, *chosen, "status", *arguments])


async def _fill(database: Path) -> None:
    store = await SqliteStore.open(database)
    conversation = await store.sessions.open_conversation(Address("web", "1"), person="owner")
    session = conversation.live_session_id
    await store.sessions.append(session, [Message("user", "Hello")])
    await store.sessions.record_usage(session, Usage(2000, 500, 1000, 0, 0.5), model="dear", spender="owner")
    done = Compaction("threshold", "compressor", 40, 8, 90_000, 12_000)
    await store.sessions.split(Split(session, "compression", compaction=done))
    await store.close()


@pytest.fixture
def filled(private_home: Path) -> Path:
    private_home.mkdir(mode=0o700)
    asyncio.run(_fill(private_home / "state.db"))
    return private_home


def test_nothing_runs(filled: Path) -> None:
    """Said plainly, with what the store knows; a code of its own, and nothing is changed by looking."""
    before = {path.name for path in filled.iterdir()}
    seen = status()
    assert seen.returncode == 3
    lines = dict(line.split("\t", 1) for line in seen.stdout.splitlines())
    assert lines["Hermes"] == "not running; `hermes run` starts it"
    assert lines["Today"] == "2.0k tokens in (50% cached), 500 out, $0.50"
    assert lines["Context"].startswith("compressor; last compaction 20")
    assert lines["Context"].endswith("90.0k → 12.0k tokens")
    assert "1 conversation" in lines["Store"]
    told = json.loads(status("--json").stdout)
    assert (told["state"], told["healthy"], told["platforms"]) == ("not running", False, {})
    assert told["last_compaction"]["tokens_after"] == 12_000
    assert {path.name for path in filled.iterdir()} <= before | {"state.db-shm", "state.db-wal"}


def test_before_the_first_start(private_home: Path) -> None:
    """Neither a store nor a directory: no error, and none is made."""
    seen = status()
    assert seen.returncode == 3
    assert "does not exist yet" in seen.stdout
    assert not private_home.exists()


def test_somebody_holds_it_and_does_not_answer(filled: Path, tmp_path: Path) -> None:
    """A gateway that hangs is unhealthy; one without a web platform cannot be asked, and runs."""
    (tmp_path / "web.yaml").write_text(yaml.safe_dump({"platforms": {"web": {"port": free_port()}}}))
    (tmp_path / "off.yaml").write_text(yaml.safe_dump({"platforms": {"web": {"enabled": False}}}))
    assert not is_running(filled)
    with hold_lock(filled, filled / "state.db"):
        assert is_running(filled)
        silent = status(config=tmp_path / "web.yaml")
        off = status(config=tmp_path / "off.yaml")
    assert not is_running(filled)
    assert silent.returncode == 1 and "it does not answer" in silent.stdout
    assert off.returncode == 0 and "no details, because" in off.stdout


def test_a_store_that_cannot_be_read(private_home: Path) -> None:
    """Its line contains the error, and the rest is shown."""
    private_home.mkdir()
    (private_home / "state.db").write_bytes(b"SQLite format 3\0" + b"rubbish" * 500)
    seen = status()
    assert seen.returncode == 3 and "Traceback" not in seen.stderr
    assert "is damaged" in seen.stdout or "not a database" in seen.stdout


async def test_a_running_gateway(filled: Path) -> None:
    """Over HTTP with its token, also for a person, to whom it stays up to date; a bot that is down is unhealthy."""
    port = free_port()
    nowhere = f"http://127.0.0.1:{free_port()}"
    web = {"port": port, "token": TOKEN}
    config = {"platforms": {"web": web, "telegram": {"token": "1:x", "base_url": nowhere}}}
    async with hermes(filled, config) as process, aiohttp.ClientSession() as http:
        url = f"http://127.0.0.1:{port}/api/status"
        async with (
            http.get(url) as refused,
            http.get(url, headers={"Authorization": f"Bearer {TOKEN}"}) as told,
        ):
            assert (refused.status, told.status) == (401, 200)
            assert (await told.json())["active_turns"] == 0
        seen = await asyncio.to_thread(status, "--json", config=process.config_path)
        assert seen.returncode == 1
        known = json.loads(seen.stdout)
        assert known["state"] == "running" and not known["healthy"]
        assert known["platforms"]["web"]["state"] == "up"
        assert known["platforms"]["telegram"]["state"] != "up"
        assert "smollm2" in known["model"] and known["waiting"] == 0
        command = [*HERMES, "--config", str(process.config_path), "status"]
        async with Terminal.run(*command, env=environment(filled), columns=120) as terminal:
            await terminal.until("Press Ctrl-C to exit.")
            first = terminal.screen.lines[-1]
            await terminal.until(
                lambda screen: "Press Ctrl-C to exit." in screen.text and screen.lines[-1] != first
            )
            terminal.interrupt()
            assert await terminal.ended() == 1
        assert "Press Ctrl-C to exit." not in terminal.screen.text
        assert terminal.screen.text.count("Store") == 1
        changed = filled / "changed.yaml"
        changed.write_text(yaml.safe_dump({"platforms": {"web": {"port": free_port(), "token": TOKEN}}}))
        moved = await asyncio.to_thread(status, "--json", config=changed)
        assert json.loads(moved.stdout)["state"] == "running", "it listens where it did at its start"
        changed.write_text(yaml.safe_dump({"platforms": {"web": {"port": port, "token": f"new-{TOKEN}"}}}))
        locked = await asyncio.to_thread(status, config=changed)
        assert locked.returncode == 1 and "Restart Hermes." in locked.stdout
        changed.write_text(yaml.safe_dump({"modle": {}, "platforms": {"web": web}}))
        broken = await asyncio.to_thread(status, config=changed)
        assert "did you mean model?" in broken.stderr and "running since" in broken.stdout
        noted = filled / "hermes.address"
        assert noted.read_text() == f"http://127.0.0.1:{port}\n" and noted.stat().st_mode & 0o777 == 0o600
        (filled / "other.yaml").write_text(
            yaml.safe_dump({"storage": {"path": "other.db"}, "platforms": {"web": web}})
        )
        other = await asyncio.to_thread(status, config=filled / "other.yaml")
        assert "does not answer" in other.stdout, "the one on that port has another store"
    assert not noted.exists()
