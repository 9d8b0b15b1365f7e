"""docs/metrics.md: every metric that is exposed is described there, with its type and labels, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from agent.context.compaction import Attempt
from agent.messages import ToolCall
from gateway.config.schema_platforms import WebConfig
from tests.support.metrics_harness import MetricsHarness, Scraped

DOCS = Path(__file__).parents[4] / "docs" / "metrics.md"
_ROW = re.compile(r"^\| `((?:hermes|process|python)_\w+)` \| (\w+) \|(.*?)\| .+ \|$", re.MULTILINE)


async def _busy(harness: MetricsHarness) -> Scraped:
    """A little of everything, so that no series is missing."""
    harness.script.will([ToolCall("1", "look_up", '{"word": "tea"}')], "So.")
    await (await harness.open()).ask("Look it up")
    metrics = harness.metrics
    with metrics.call("telegram", "Send", ""), metrics.compaction(Attempt("loop")):
        metrics.delivered("telegram", "sent")
    metrics.count_warning("turn.failed", "RateLimited")
    metrics.meters.unpriced_calls.labels("a").inc()
    return await harness.scraped()


async def test_every_metric_is_documented_as_it_is(harness: MetricsHarness) -> None:
    """Name, type and labels, both ways."""
    documented = {
        name: (kind, set(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels in _ROW.findall(DOCS.read_text())
    }
    exposed = {}
    for family in (await _busy(harness)).families.values():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert family.samples, f"{name} has no series in this test"
        exposed[name] = (family.type, set(family.samples[0].labels) - {"le"})
    assert documented == exposed


async def test_the_alarms_ask_for_metrics_that_exist(harness: MetricsHarness) -> None:
    """And the YAML can be read."""
    blocks = [
        yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    ]
    scrape, alarms = blocks
    [target] = scrape["scrape_configs"][0]["static_configs"]
    assert target["targets"] == [f"{WebConfig().host}:{WebConfig().port}"]
    rules = alarms["groups"][0]["rules"]
    assert len(rules) == 3
    text = (await _busy(harness)).text
    for rule in rules:
        for name in re.findall(r"hermes_\w+", rule["expr"]):
            assert f"\n{name}" in text, name
