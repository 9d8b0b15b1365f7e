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


async def test_ready(harness: MetricsHarness) -> None:
    """Everything that runs takes messages."""
    harness.platforms.append(FixedPlatform())
    told = {"status": "ready", "platforms": {"web": "up", "telegram": "up"}, "problems": {}}
    assert await harness.get("/readyz") == (200, told)
    seen = await harness.scraped()
    assert (seen("hermes_ready"), seen("hermes_platform_up", platform="telegram")) == (1, 1)


async def test_a_platform_that_cannot_take_messages(harness: MetricsHarness) -> None:
    """It is named, with the reason, and without the secret that the reason quotes; Hermes is still alive."""
    with keeping_secret(["7000000001:AAsecret_token_of_a_bot_0"]):
        health = Health("refused", "Telegram refused 7000000001:AAsecret_token_of_a_bot_0.")
    harness.platforms.append(FixedPlatform(health=health))
    status, told = await harness.get("/readyz")
    assert (status, told["status"], list(told["problems"])) == (503, "not ready", ["telegram"])
    assert "Telegram refused" in told["problems"]["telegram"]
    alive, health_told = await harness.get("/healthz")
    assert alive == 200 and "Telegram refused" in str(health_told)
    assert "AAsecret" not in f"{told}{health_told}"
    seen = await harness.scraped()
    assert (seen("hermes_ready"), seen("hermes_platform_up", platform="telegram")) == (0, 0)


async def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    """A lock held by another program: the answer names no file. Once it is released, all is well."""
    path = tmp_path / "state.db"
    async with metrics_harness(tmp_path, await SqliteStore.open(path)) as harness:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            status, told = await harness.get("/readyz")
            assert (status, list(told["problems"])) == (503, ["store"])
            assert str(tmp_path) not in str(told)
            seen = await harness.scraped()
            assert seen("hermes_ready") == 0, "and what was counted is told all the same"
            other.execute("ROLLBACK")
        while (await harness.get("/readyz"))[0] != 200:
            pass


async def test_what_is_stopping_takes_nothing_more(harness: MetricsHarness) -> None:
    """While the last answers end, others are to send nothing here."""
    await harness.gateway.close()
    status, told = await harness.get("/readyz")
    assert (status, list(told["problems"])) == (503, ["gateway"])


async def test_who_may_read_what(tmp_path: Path) -> None:
    """With a token, metrics need it; readiness does not."""
    async with metrics_harness(tmp_path, token=TOKEN) as harness:
        assert (await harness.get("/readyz"))[0] == 200
        status, told = await harness.get("/metrics")
        assert (status, "hermes_turns" in str(told)) == (401, False)
        await harness.scraped(headers={"Authorization": f"Bearer {TOKEN}"})


async def test_openmetrics_on_request(harness: MetricsHarness) -> None:
    """Prometheus asks for it; curl gets the text form."""
    wants = {"Accept": "application/openmetrics-text; version=1.0.0"}
    async with harness.http.get(f"{harness.url}/metrics", headers=wants) as response:
        assert response.headers["Content-Type"].startswith("application/openmetrics-text")
        assert (await response.text()).endswith("# EOF\n")
    async with harness.http.get(f"{harness.url}/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain")


async def test_nothing_about_anybody(harness: MetricsHarness) -> None:
    """Neither a conversation nor a message nor a word of it is in any of the answers."""
    chat = await harness.open("the kitchen table")
    events = await chat.ask("Where is the marmalade?")
    told = [str((await harness.get(path))[1]) for path in ("/metrics", "/readyz", "/healthz")]
    for private in (chat.id, events[0]["message_id"], "marmalade", "kitchen", "owner"):
        assert private not in "".join(told), private


async def test_a_server_that_is_started_again(harness: MetricsHarness) -> None:
    """It goes on with the same counters."""
    await (await harness.open()).ask("Hello")
    await harness.web.stop()
    await harness.web.start()
    assert (await harness.scraped())("hermes_turns_total", platform="web", outcome="answered") == 1
