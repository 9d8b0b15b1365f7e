"""A gateway process whose store is in PostgreSQL."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

from tests.fakes.openai.server import FakeOpenAI
from tests.support import warm
from tests.support.hermes_process import HermesProcess, WebClient, environment, hermes
from tests.support.postgres import PostgresServer
from tests.support.warm import HERMES


def _config(world: FakeOpenAI, url: str) -> dict[str, Any]:
    model = {"name": "openai/test-model", "base_url": world.base_url, "api_key": world.api_key}
    return {"model": model, "storage": {"url": url}}


def _text(events: list[dict[str, Any]]) -> str:
    return "".join(event["text"] for event in events if event["type"] == "TextDelta")


async def _cli(process: HermesProcess, *arguments: str) -> tuple[int, str]:
    command = [*HERMES, "--config", str(process.config_path), *arguments]
    done = await asyncio.to_thread(warm.run, command, env=environment(process.home))
    return done.returncode, done.stdout + done.stderr


async def test_a_gateway_on_postgres(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    """It answers, survives a kill and lost connections, and every command reads the same store."""
    async with FakeOpenAI() as world, hermes(tmp_path / "home", _config(world, postgres_url)) as process:
        assert "postgresql://hermes@" in "".join(process.output)
        world.reply(text="Noted: oat milk.")
        async with WebClient.open(process.url, "kitchen") as ada:
            assert _text(await ada.say("We need oat milk.")) == "Noted: oat milk."

        await process.restart(signal.SIGKILL)
        world.reply(text="Oat milk, as you said.")
        async with WebClient.open(process.url, "kitchen") as ada:
            assert _text(await ada.say("What do we need?")) == "Oat milk, as you said."
            assert "We need oat milk." in str(world.requests[-1].body)

            await asyncio.to_thread(postgres_server.cut_connections, postgres_url)
            world.reply(text="Still here.")
            assert _text(await ada.say("And now?")) == "Still here."

        code, listed = await _cli(process, "sessions", "list")
        assert code == 0 and "We need oat milk." in listed
        code, status = await _cli(process, "status")
        assert code == 0 and "1 conversation" in status
        code, refused = await _cli(process, "backup")
        assert code != 0 and "pg_dump" in refused
        code, found = await _cli(process, "sessions", "search", "milk")
        assert code == 0 and "milk" in found
        assert not (tmp_path / "home" / "state.db").exists()

        copy = tmp_path / "copy.db"
        code, refused = await _cli(process, "migrate-store", str(copy))
        assert code != 0 and "Hermes is running" in refused
        await process.stop()
        code, copied = await _cli(process, "migrate-store", str(copy))
        assert code == 0 and "Copied and compared 6 messages" in copied, copied
        process.configure({**_config(world, postgres_url), "storage": {"path": str(copy)}})
        code, again = await _cli(process, "sessions", "list")
        assert (code, again) == (0, listed)


async def test_a_second_gateway_is_refused(tmp_path: Path, postgres_url: str) -> None:
    """Two gateways on one database would both deliver the replies that wait."""
    async with FakeOpenAI() as world, hermes(tmp_path / "one", _config(world, postgres_url)):
        second = HermesProcess(tmp_path / "two", _config(world, postgres_url))
        code, output = await _cli(second, "run")
        assert code != 0 and "Another Hermes uses this database" in output
