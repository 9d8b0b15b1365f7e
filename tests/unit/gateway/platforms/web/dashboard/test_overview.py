"""The first page: what it tells, and that it stays up to date."""

from __future__ import annotations

import json
from pathlib import Path

import gateway
from agent.llm import Usage
from agent.messages import Message
from agent.store import Address, Compaction, Split
from gateway.config.schema import Config
from gateway.observability.metrics import Metrics
from gateway.platforms.base import Health
from gateway.platforms.web.dashboard.overview import EXPLANATIONS
from gateway.types import OWNER, InboundMessage
from tests.support.dashboard_harness import SCRIPT, DashboardHarness, running_dashboard
from tests.support.gateways import FixedPlatform, Gate


async def test_platforms_and_what_to_do(tmp_path: Path) -> None:
    """Each with its state, in words, and a sentence."""
    services = [
        FixedPlatform("telegram", Health("up"), "@hermes_bot"),
        FixedPlatform("telegram/work", Health("refused", f"set `TELEGRAM_BOT_TOKEN`. {SCRIPT}")),
        FixedPlatform("discord", Health("down", "The connection ended.")),
    ]
    async with running_dashboard(tmp_path, platforms=services) as dashboard:
        page = await dashboard.page("/dashboard")
    for text in (
        "@hermes_bot",
        "<code>TELEGRAM_BOT_TOKEN</code>",
        "You need to fix this",
        "Hermes retries by itself",
    ):
        assert text in page
    assert "<script>alert" not in page


async def test_what_is_being_answered(dashboard: DashboardHarness) -> None:
    """With its conversation, who asked, and what waits behind it; it goes when it is done."""
    gate = Gate()
    dashboard.script.will([gate, "Done."])
    address = Address("web", "desk")
    conversation = await dashboard.gateway.receive(InboundMessage(address, OWNER, "first"))
    await gate.reached.wait()
    await dashboard.gateway.receive(InboundMessage(address, OWNER, "second"))
    async with dashboard.http.get(f"{dashboard.url}/dashboard/live") as stream:
        html = await _next_html(stream.content)
        assert f"/dashboard/conversations/{conversation.id}" in html and "owner" in html
        assert "1 queued behind a running turn" in html
        gate.set()
        while "queued behind" in html:
            html = await _next_html(stream.content)


async def _next_html(lines: object) -> str:
    async for line in lines:  # type: ignore[attr-defined]
        if line.startswith(b"data: "):
            return str(json.loads(line[6:])["html"])
    raise EOFError


async def test_tokens_cost_and_limits(tmp_path: Path) -> None:
    """Against what may be spent in a day, in all and by each."""
    config = Config.model_validate({"limits": {"daily_usd_total": 2.0, "daily_usd_per_person": 0.5}})
    async with running_dashboard(tmp_path, config=config) as dashboard:
        conversation = await dashboard.store.sessions.open_conversation(Address("web", "desk"), person=OWNER)
        usage = Usage(10_000, 600, 7_500, 0, 0.45)
        await dashboard.store.sessions.record_usage(
            conversation.live_session_id, usage, model="m/x", spender="telegram:<b>"
        )
        page = await dashboard.page("/dashboard")
    for text in ("$0.45", "10,000", "600", "75 % from the cache", "telegram:&lt;b&gt;", "90 %"):
        assert text in page, text


async def test_compactions_of_today(dashboard: DashboardHarness) -> None:
    """How many, and what they freed."""
    conversation = await dashboard.store.sessions.open_conversation(Address("web", "desk"), person=OWNER)
    await dashboard.store.sessions.append(conversation.live_session_id, [Message("user", "hello")])
    compaction = Compaction("hygiene", "compressor", 10, 3, 9_000, 2_000, None, 1.0, None, "ok")
    await dashboard.store.sessions.split(
        Split(conversation.live_session_id, "compression", compaction=compaction)
    )
    page = await dashboard.page("/dashboard")
    assert "7,000 tokens freed" in page


async def test_errors_are_sentences(tmp_path: Path) -> None:
    """Each known one says what it means; of any other, where to read about it."""
    metrics = Metrics()
    metrics.count_warning("config.rejected", None)
    metrics.count_warning("some.plugin_broke", "KeyError")
    async with running_dashboard(tmp_path, metrics=metrics) as dashboard:
        page = await dashboard.page("/dashboard")
    assert "has a mistake" in page and "<code>hermes config check</code>" in page
    assert "See <code>hermes logs --level warning</code>." in page and "some.plugin_broke" in page
    assert "the longest delay of the event loop" in page


def test_every_explained_event_is_logged() -> None:
    """A renamed event would lose its explanation."""
    root = Path(gateway.__file__).parents[1]
    sources = [
        file.read_text()
        for folder in ("agent", "gateway", "plugins")
        for file in (root / folder).rglob("*.py")
        if file.name != "overview.py"
    ]
    for kind in EXPLANATIONS:
        assert any(f'"{kind}"' in source for source in sources), kind


async def test_every_page_with_nothing_to_show(dashboard: DashboardHarness) -> None:
    """Says so in words, and names itself in the menu."""
    for path in ("", "/spend", "/people", "/parked", "/system"):
        page = await dashboard.page(f"/dashboard{path}")
        assert 'aria-current="page"' in page and "</html>" in page, path
