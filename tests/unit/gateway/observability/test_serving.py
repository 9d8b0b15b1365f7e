"""`/readyz` and `/metrics`: who may read them, and what makes Hermes unready."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from agent.redaction import keeping_secret
from gateway.platforms.base import Health
from gateway.store.sqlite.store import SqliteStore
from tests.support.gateways import FixedPlatform
from tests.support.metrics_harness import MetricsHarness, metrics_harness

TOKEN = "a-token-of-the-tests-0123"


async def test_ready(world: MetricsHarness) -> None:
    """Everything that runs takes messages."""
    world.platforms.append(FixedPlatform())
    told = {"status": "ready", "platforms": {"web": "up", "telegram": "up"}, "problems": {}}
    assert await world.get("/readyz") == (200, told)
    seen = await world.scraped()
    assert (seen("hermes_ready"), seen("hermes_platform_up", platform="telegram")) == (1, 1)


async def test_a_platform_that_cannot_take_messages(world: MetricsHarness) -> None:
    """It is named, with the reason, and without the secret that the reason quotes; Hermes is still alive."""
    with keeping_secret(["7000000001:AAsecret_token_of_a_bot_0"]):
        health = Health("refused", "Telegram refused 7000000001:AAsecret_token_of_a_bot_0.")
    world.platforms.append(FixedPlatform(health=health))
    status, told = await world.get("/readyz")
    assert (status, told["status"], list(told["problems"])) == (503, "not ready", ["telegram"])
    assert "Telegram refused" in told["problems"]["telegram"]
    alive, health_told = await world.get("/healthz")
    assert alive == 200 and "Telegram refused" in str(health_told)
    assert "AAsecret" not in f"{told}{health_told}"
    seen = await world.scraped()
    assert (seen("hermes_ready"), seen("hermes_platform_up", platform="telegram")) == (0, 0)


async def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    """Another program holds it: neither the file nor anything else is named. Once it lets go, all is well."""
    path = tmp_path / "state.db"
    async with metrics_harness(tmp_path, await SqliteStore.open(path)) as world:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            status, told = await world.get("/readyz")
            assert (status, list(told["problems"])) == (503, ["store"])
            assert str(tmp_path) not in str(told)
            seen = await world.scraped()
            assert seen("hermes_ready") == 0, "and what was counted is told all the same"
            other.execute("ROLLBACK")
        while (await world.get("/readyz"))[0] != 200:
            pass


async def test_what_is_stopping_takes_nothing_more(world: MetricsHarness) -> None:
    """While the last answers end, others are to send nothing here."""
    await world.gateway.close()
    status, told = await world.get("/readyz")
    assert (status, list(told["problems"])) == (503, ["gateway"])


async def test_who_may_read_what(tmp_path: Path) -> None:
    """With a token, the numbers are for those who have it; whether Hermes is ready is for everybody."""
    async with metrics_harness(tmp_path, token=TOKEN) as world:
        assert (await world.get("/readyz"))[0] == 200
        status, told = await world.get("/metrics")
        assert (status, "hermes_turns" in str(told)) == (401, False)
        await world.scraped(headers={"Authorization": f"Bearer {TOKEN}"})


async def test_openmetrics_on_request(world: MetricsHarness) -> None:
    """Prometheus asks for it; curl gets the text form."""
    wants = {"Accept": "application/openmetrics-text; version=1.0.0"}
    async with world.http.get(f"{world.url}/metrics", headers=wants) as response:
        assert response.headers["Content-Type"].startswith("application/openmetrics-text")
        assert (await response.text()).endswith("# EOF\n")
    async with world.http.get(f"{world.url}/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain")


async def test_nothing_about_anybody(world: MetricsHarness) -> None:
    """Neither a conversation nor a message nor a word of it is in any of the answers."""
    chat = await world.open("the kitchen table")
    events = await chat.ask("Where is the marmalade?")
    told = [str((await world.get(path))[1]) for path in ("/metrics", "/readyz", "/healthz")]
    for private in (chat.id, events[0]["message_id"], "marmalade", "kitchen", "owner"):
        assert private not in "".join(told), private


async def test_a_server_that_is_started_again(world: MetricsHarness) -> None:
    """It goes on with the same counters."""
    await (await world.open()).ask("Hello")
    await world.web.stop()
    await world.web.start()
    assert (await world.scraped())("hermes_turns_total", platform="web", outcome="answered") == 1
