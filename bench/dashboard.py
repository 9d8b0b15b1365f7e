"""The dashboard over 100,000 messages in 1,000 conversations: server time of every page."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import aiohttp
import structlog

from agent.llm import Usage
from agent.messages import Message
from agent.store import Address, Split
from agent.tool import discover
from bench.measure import TEMPORARY, Row, SteadyLLM, opened_store, running_gateway
from bench.store import texts_like_chats, update_index
from gateway.config.loader import LoadedConfig
from gateway.config.schema import Config
from gateway.observability.metrics import Metrics
from gateway.platforms.web.dashboard.page import DashboardContext
from gateway.platforms.web.platform import WebPlatform
from gateway.reload import LiveConfig
from gateway.store.sql.writes import record_usage
from gateway.store.sqlite.store import SqliteStore

MESSAGES, CONVERSATIONS, PEOPLE, DAYS = 100_000, 1_000, 200, 90
MODELS = ("anthropic/claude-sonnet-4-5", "openai/gpt-4.1-mini", "somewhere/unknown")
LONGEST = 5_000
"""Messages of one conversation, which also has forty splits."""
TIMES = 15
AIM = 0.1

PAGES = (
    "/dashboard",
    "/dashboard/spend?days=30",
    "/dashboard/spend?days=365",
    "/dashboard/people",
    "/dashboard/parked",
    "/dashboard/system",
    "/dashboard/conversations",
    "/dashboard/conversations?page=2",
    "/dashboard/conversations?platform=telegram&person=telegram%3A3",
    "/dashboard/conversations?q=the+and+to",
    "/dashboard/conversations?q=zanzibar",
    "/dashboard/conversations/{long}",
    "/dashboard/conversations/{long}?from=1",
    "/dashboard/conversations/{long}/context",
    "/dashboard/conversations/{short}",
)


def rows() -> list[Row]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with tempfile.TemporaryDirectory(prefix=TEMPORARY) as directory:
        return asyncio.run(_measure(Path(directory)))


async def _measure(folder: Path) -> list[Row]:
    async with opened_store(folder) as store:
        long, short = await _fill(store)
        await asyncio.to_thread(_spend, folder / "state.db")
        async with running_gateway(SteadyLLM([]), store, folder, list(discover().values())) as gateway:
            settings = LiveConfig(LoadedConfig(Config(), None, folder))
            context = DashboardContext(gateway, settings, "A model.", (), Metrics())
            web = WebPlatform(context, host="127.0.0.1", port=0, token=None)
            await web.start()
            async with aiohttp.ClientSession() as http:
                found = [await _timed(http, web.where, page.format(long=long, short=short)) for page in PAGES]
        await web.stop()
        return found


async def _timed(http: aiohttp.ClientSession, where: str, page: str) -> Row:
    """Measure a page. The client runs in the same process, so the figures contain its work."""
    times, size, cpu = [], 0, 0.0
    for _ in range(TIMES + 1):
        began = time.perf_counter()
        async with http.get(where + page) as response:
            assert response.status == 200, (page, response.status)
            size = len(await response.read())
        times.append(time.perf_counter() - began)
        cpu = cpu or time.process_time()
    first, *others = times
    cpu = (time.process_time() - cpu) / TIMES
    return (
        page,
        f"p50 {statistics.median(others) * 1e3:.0f} ms, worst {max(others) * 1e3:.0f} ms, "
        f"CPU {cpu * 1e3:.0f} ms, first {first * 1e3:.0f} ms, {size / 1024:.0f} kB",
        f"< {AIM * 1e3:.0f} ms",
        "days x people" if "spend" in page else "what it shows",
    )


async def _fill(store: SqliteStore) -> tuple[str, str]:
    texts = texts_like_chats(seed=11)
    platforms = ("telegram", "discord", "web")
    found = []
    for number in range(CONVERSATIONS):
        platform = platforms[number % len(platforms)]
        address = Address(platform, str(number))
        found.append(await store.sessions.open_conversation(address, person=f"{platform}:{number % PEOPLE}"))
    left = MESSAGES - LONGEST
    for number, conversation in enumerate(found[1:]):
        share = left // (CONVERSATIONS - 1) + (number < left % (CONVERSATIONS - 1))
        await store.sessions.append(conversation.live_session_id, _dialogue(share, texts))
    session_id = found[0].live_session_id
    for _ in range(40):
        await store.sessions.append(session_id, _dialogue(LONGEST // 40, texts))
        summary = Message("user", "What came before, in short.", kind="summary")
        session_id = (await store.sessions.split(Split(session_id, "compression", [summary]))).id
    await update_index(store)
    return found[0].id, found[1].id


def _dialogue(count: int, texts: Iterator[str]) -> list[Message]:
    return [Message("user" if number % 2 == 0 else "assistant", next(texts)) for number in range(count)]


def _spend(path: Path) -> None:
    """Insert a model call for every other message, over 90 days. The store would date all of them today."""
    chance = random.Random(3)
    now = time.time()
    with closing(sqlite3.connect(path)) as connection, connection:
        sessions = [row[0] for row in connection.execute("SELECT live_session_id FROM conversations")]
        for number in range(MESSAGES // 2, 0, -1):
            record_usage(
                connection,
                chance.choice(sessions),
                Usage(9_000, 400, 7_000, 500, chance.choice((0.01, 0.02, None))),
                chance.choice(MODELS),
                "turn",
                f"telegram:{chance.randrange(PEOPLE)}",
                now - DAYS * 86_400 * number / (MESSAGES // 2),
            )
