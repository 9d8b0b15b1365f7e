"""The dashboard in a real browser: layout, buttons and accessibility."""

from __future__ import annotations

import random
import re
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from agent.llm import Usage
from agent.store import Address
from gateway.access import Pairing
from gateway.config.schema import Config
from gateway.core.inbox_codec import encode_local
from gateway.platforms.base import Health
from gateway.store.sql.writes import record_usage
from gateway.types import OWNER, Author, InboundMessage
from tests.support.browser import IN_A_BROWSER, Tab
from tests.support.dashboard_harness import (
    PHONE,
    DashboardHarness,
    accessibility_violations,
    running_dashboard,
    scrolls_sideways,
)
from tests.support.gateways import FixedPlatform, Gate

pytestmark = IN_A_BROWSER

PAGES = {
    "overview": "/dashboard",
    "spend": "/dashboard/spend",
    "people": "/dashboard/people",
    "parked": "/dashboard/parked",
    "system": "/dashboard/system",
}
MODELS = ("anthropic/claude-sonnet-4-5", "openai/gpt-4.1-mini", "openrouter/z-ai/glm-4.6", "ollama/qwen3")


@pytest_asyncio.fixture(name="dashboard", loop_scope="session")
async def busy_dashboard(tmp_path: Path) -> AsyncIterator[DashboardHarness]:
    """A Hermes with bots, spending, a newcomer, a turn under way, and a message that was given up on."""
    services = [
        FixedPlatform("web", Health("up"), "http://127.0.0.1:8787"),
        FixedPlatform("telegram", Health("up"), "@hermes_bot, https://t.me/hermes_bot"),
        FixedPlatform(
            "discord/guild", Health("refused", "Discord refused the token. Set `DISCORD_BOT_TOKEN` again.")
        ),
    ]
    limits = {"daily_usd_total": 5.0, "daily_usd_per_person": 2.0}
    config = Config.model_validate({"limits": limits})
    async with running_dashboard(tmp_path, config=config, platforms=services) as dashboard:
        conversation = await dashboard.store.sessions.open_conversation(Address("web", "desk"), person=OWNER)
        await dashboard.store.database.write(_spend, conversation.live_session_id, fence=None)
        question = InboundMessage(Address("web", "desk"), OWNER, "What is 1/0?")
        await dashboard.store.inbox.add(encode_local(question))
        await dashboard.store.inbox.park([question.id], "Hermes broke down over it")
        pairing = Pairing(dashboard.store.access)
        await pairing.request("telegram", Author("4711", "Zoe <b>Stranger</b>"))
        await pairing.request("telegram", Author("4712", "Max"))
        await pairing.approve_person("telegram", "4712", by="dashboard")
        yield dashboard


def _spend(connection: sqlite3.Connection, session_id: str) -> None:
    chance = random.Random(7)
    for day in range(30):
        for _ in range(chance.randrange(2, 12)):
            model = chance.choices(MODELS, (6, 3, 2, 1))[0]
            usage = Usage(21_000, 700, 16_000, 900, chance.choice((0.04, 0.09, 0.2)))
            spender = f"telegram:{chance.randrange(4711, 4714)}"
            record_usage(connection, session_id, usage, model, "turn", spender, time.time() - day * 86_400)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("light", {}),
        ("dark", {"color_scheme": "dark"}),
        ("phone", {"viewport": PHONE}),
    ],
)
async def test_every_page(
    browser: Browser, dashboard: DashboardHarness, name: str, options: dict[str, Any]
) -> None:
    """In light and dark and on a phone: no barrier, no scrolling sideways, nothing for the console."""
    gate = Gate()
    dashboard.script.will([gate, "Done."])
    await dashboard.gateway.receive(InboundMessage(Address("web", "garden"), OWNER, "Wait a little."))
    await gate.reached.wait()
    async with Tab.visiting(browser, **options) as tab:
        for page, path in PAGES.items():
            await tab.page.goto(dashboard.url + path)
            await tab.sees("h1")
            assert await accessibility_violations(tab) == [], page
            assert not await scrolls_sideways(tab), page
            await tab.picture(f"dashboard-{page}-{name}")
        assert tab.complaints == []
    gate.set()


async def test_without_a_script(browser: Browser, dashboard: DashboardHarness) -> None:
    """Everything can be read; what would do nothing is not there."""
    async with Tab.visiting(browser, java_script_enabled=False) as tab:
        for path, text in (("/dashboard/spend", "By model"), ("/dashboard/parked", "What is 1/0?")):
            await tab.page.goto(dashboard.url + path)
            await tab.sees("main", text)
        await tab.sees_no("button")


async def test_a_newcomer_is_let_in(browser: Browser, dashboard: DashboardHarness) -> None:
    """By keyboard; the page follows by itself."""
    async with Tab.visiting(browser, f"{dashboard.url}/dashboard/people") as tab:
        await tab.sees(".rows .card", "Zoe <b>Stranger</b>")
        await tab.page.get_by_role("button", name="Approve Zoe").focus()
        await tab.page.keyboard.press("Enter")
        await tab.sees("#status", "can talk to telegram now")
        await tab.sees("#live", "There are no requests")
        await tab.sees("tbody tr", count=2)
        assert tab.complaints == []


async def test_a_parked_message_gets_another_chance(browser: Browser, dashboard: DashboardHarness) -> None:
    """It is answered, and goes from the list."""
    async with Tab.visiting(browser, f"{dashboard.url}/dashboard/parked") as tab:
        await tab.sees("blockquote", "What is 1/0?")
        await tab.page.get_by_role("button", name="Retry").click()
        await tab.sees("#status", "It is being answered now.")
        await tab.sees("#live", "Nothing is parked")
        assert tab.complaints == []
    assert await dashboard.store.inbox.parked() == []


async def test_a_refused_stream_is_asked_for_again(browser: Browser, dashboard: DashboardHarness) -> None:
    """Too many pages are open: the person is told, and the page follows again once there is room."""
    is_stream = re.compile("/live")
    async with Tab.visiting(browser) as tab:
        await tab.page.route(is_stream, lambda route: route.fulfill(status=503, body="No."))
        await tab.page.goto(f"{dashboard.url}/dashboard/parked")
        await tab.sees("#status", "close some")
        await tab.page.unroute(is_stream)
        await tab.sees_no("#status")
        await tab.page.get_by_role("button", name="Retry").click()
        await tab.sees("#live", "Nothing is parked")
