"""What happens in turns, as `/metrics` tells it afterwards."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
import structlog

from agent.errors import RateLimited
from agent.llm import Usage
from agent.messages import ToolCall
from agent.testing import ScriptedLLM
from gateway.chat.errors import SlowDown, Undeliverable
from gateway.observability.definitions import BoundedLabel
from gateway.observability.logs import on_warning
from gateway.observability.metrics import Metrics
from tests.support.chat_service import ChatService
from tests.support.fault_harness import open_harness
from tests.support.gateways import Gate
from tests.support.log_lines import logging_as_configured
from tests.support.metrics_harness import MetricsHarness
from tests.support.stores import temporary_store


async def test_a_turn_is_counted_with_its_times_and_tokens(harness: MetricsHarness) -> None:
    """One answer: outcome, three histograms, the model call, and nothing under way any more."""
    chat = await harness.open()
    await chat.ask("How is the weather?")
    seen = await harness.scraped()
    assert seen("hermes_turns_total", platform="web", outcome="answered") == 1
    for name in ("hermes_turn_seconds", "hermes_first_token_seconds", "hermes_wait_seconds"):
        assert seen(f"{name}_count", platform="web") == 1, name
    assert seen("hermes_turns_active", platform="web") == 0
    assert seen("hermes_model_calls_total", model="scripted/model", purpose="turn", outcome="ok") == 1
    assert (seen("hermes_tokens_in_total", model="scripted/model") or 0) > 0
    assert (seen("hermes_tokens_out_total", model="scripted/model") or 0) > 0


async def test_every_way_out_has_its_name(harness: MetricsHarness) -> None:
    """A command, a failure and a stop do not count as answers, and a command is not timed."""
    chat = await harness.open()
    await chat.ask("/reset")
    harness.script.will(RateLimited())
    await chat.ask("Too much?")
    gate = Gate()
    harness.script.will(["One ", gate, "two"])
    async with chat.watch() as events:
        await chat.send("Count!")
        await gate.reached.wait()
        assert await chat.stop()
        while not (await events.until("TurnDone", "TurnFailed"))[-1].get("stopped"):
            pass
    seen = await harness.scraped()
    outcomes = {
        outcome: seen("hermes_turns_total", platform="web", outcome=outcome)
        for outcome in ("answered", "command", "failed", "stopped", "interrupted")
    }
    assert outcomes == {"answered": 0, "command": 1, "failed": 1, "stopped": 1, "interrupted": 0}
    assert seen("hermes_turn_seconds_count", platform="web") == 2
    calls = {"model": "scripted/model", "purpose": "turn"}
    assert seen("hermes_model_calls_total", outcome="RateLimited", **calls) == 1
    assert seen("hermes_model_calls_total", outcome="stopped", **calls) == 1


async def test_a_turn_that_a_stop_cuts_short_has_not_failed(harness: MetricsHarness) -> None:
    """It goes on at the next start."""
    chat, gate = await harness.open(), Gate()
    harness.script.will([gate, "Never."])
    await chat.send("Wait")
    await gate.reached.wait()
    await harness.gateway.close()
    seen = await harness.scraped()
    assert seen("hermes_turns_total", platform="web", outcome="interrupted") == 1
    assert seen("hermes_turns_total", platform="web", outcome="failed") == 0
    assert seen("hermes_turns_active", platform="web") == 0


async def test_running_and_queued_messages(harness: MetricsHarness) -> None:
    """One answer is being written and two messages are queued."""
    chat, gate = await harness.open(), Gate()
    harness.script.will([gate, "Done."])
    await chat.send("First")
    await gate.reached.wait()
    await chat.send("Second")
    await chat.send("Third")
    seen = await harness.scraped()
    assert (seen("hermes_turns_active", platform="web"), seen("hermes_queue_depth")) == (1, 2)
    assert seen("hermes_inbox_messages", platform="web", state="waiting") == 3
    async with chat.watch() as events:
        gate.set()
        for _ in range(3):
            await events.until("TurnDone")
    assert (await harness.scraped())("hermes_wait_seconds_count", platform="web") == 3


async def test_a_tool_that_does_not_exist_gets_no_label(harness: MetricsHarness) -> None:
    """A model may call it by any name, even by private words."""
    harness.script.will(
        [ToolCall("1", "look_up", '{"word": "tea"}'), ToolCall("2", "my secret wish", "{}")], "So."
    )
    await (await harness.open()).ask("Look it up")
    seen = await harness.scraped()
    assert seen("hermes_tool_calls_total", tool="look_up", outcome="ok") == 1
    assert seen("hermes_tool_calls_total", tool="other", outcome="failed") == 1
    assert "secret wish" not in seen.text


async def test_a_compaction_is_counted_by_what_led_to_it(harness: MetricsHarness) -> None:
    """Once there is nothing to compress, once there is."""
    chat = await harness.open()
    await chat.ask("/compress")
    for number in range(30):
        await chat.ask(f"Message {number} " + "and so on " * 300)
    await chat.ask("/compress")
    seen = await harness.scraped()
    assert seen("hermes_compactions_total", trigger="command", outcome="nothing") == 1
    assert seen("hermes_compactions_total", trigger="command", outcome="ok") == 1
    assert seen("hermes_compaction_seconds_count", trigger="command") == 2
    assert (
        seen("hermes_model_calls_total", model="scripted/model", purpose="compression", outcome="ok") or 0
    ) >= 1


async def test_what_the_cache_served_and_what_it_cost() -> None:
    """The ratio follows from the counters; a call of unknown price is not taken for a free one."""
    metrics = Metrics()
    metrics.meters.count_usage("a", "turn", Usage(1_000, 10, cache_read_tokens=750, cost_usd=0.25))
    metrics.meters.count_usage("b", "compression", Usage(1_000, 10))
    value = metrics.registry.get_sample_value
    assert value("hermes_tokens_cached_total", {"model": "a"}) == 750
    assert value("hermes_cost_usd_total", {"model": "a", "purpose": "turn"}) == 0.25
    assert value("hermes_cost_usd_total", {"model": "b", "purpose": "compression"}) is None
    assert value("hermes_unpriced_calls_total", {"model": "b"}) == 1


async def test_the_way_out_to_a_chat(tmp_path: Path) -> None:
    """Calls by what came of them, and whether what had to arrive did."""
    metrics, service = Metrics(), ChatService(limit=4000)
    service.fail("send", SlowDown(0.01))
    llm = ScriptedLLM(["Here it is.", "Nobody reads this."])
    async with open_harness(
        llm, store=await temporary_store(), service=service, workspaces=tmp_path, observer=metrics
    ) as harness:
        await harness.turn("Please")
        await service.until(lambda: "Here it is." in service.texts())
        while not await harness.is_idle():  # noqa: ASYNC110 - the store rings no bell
            await asyncio.sleep(0.01)
        service.fail("send", Undeliverable(), permanent=True)
        await harness.turn("Once more")
    value = metrics.registry.get_sample_value
    sends = {"platform": "memory", "call": "Send"}
    assert value("hermes_platform_calls_total", {**sends, "outcome": "SlowDown"}) == 1
    assert value("hermes_platform_calls_total", {**sends, "outcome": "ok"}) == 1
    assert value("hermes_platform_calls_total", {**sends, "outcome": "Undeliverable"}) == 1
    assert value("hermes_deliveries_total", {"platform": "memory", "outcome": "sent"}) == 1
    assert value("hermes_deliveries_total", {"platform": "memory", "outcome": "parked"}) == 1


@pytest.mark.parametrize("level", ["info", "error"])
def test_errors_are_those_of_the_log(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By the name of the line and the class it names; also where warnings are kept out of the log, and without any of
    the words that a line or a library brings."""
    metrics = Metrics()
    with logging_as_configured(level, "json"), on_warning(metrics.count_warning):
        ours = structlog.get_logger("tests")
        ours.info("turn.done")
        ours.warning("turn.failed", error="RateLimited")
        ours.warning("turn.failed", error="RateLimited")
        ours.error("leases.not_renewed", error="Ada said: it is full")
        ours.warning("Ada said this to a plugin")
        logging.getLogger("somebody.else").warning("Ada said something odd")
    warnings = {(each.kind, each.error): each.count for each in metrics.warnings}
    assert warnings == {
        ("turn.failed", "RateLimited"): 2,
        ("leases.not_renewed", ""): 1,
        ("library:somebody", ""): 1,
        ("other", ""): 1,
    }
    labels = {"kind": "turn.failed", "error": "RateLimited"}
    assert metrics.registry.get_sample_value("hermes_errors_total", labels) == 2
    assert ("turn.failed" in capsys.readouterr().err) is (level == "info")


def test_a_label_has_an_end() -> None:
    """Further names count as `other`; known names stay."""
    bounded = BoundedLabel(2)
    assert [bounded(each) for each in ("a", "b", "c", "a")] == ["a", "b", "other", "a"]
    assert BoundedLabel()("long" * 100) == "other"


async def test_a_blocked_event_loop_shows() -> None:
    metrics = Metrics()
    measuring = asyncio.create_task(metrics.lag.measure())
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    until = loop.time() + 0.7
    while loop.time() < until:
        pass
    while not metrics.lag.worst:  # noqa: ASYNC110 - it measures by the clock
        await asyncio.sleep(0.01)
    measuring.cancel()
    assert 0.1 < metrics.lag.worst < 5
    assert metrics.registry.get_sample_value("hermes_event_loop_lag_seconds_count") == 1
