"""A short run of the kill test; `make test-chaos` is the long one."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.chaos.evidence import evidence
from tests.e2e.chaos.kills import run_kill_test
from tests.e2e.chaos.moments import MOMENTS
from tests.e2e.chaos.report import summary

DECK = (
    "while it starts",
    "telegram: messages are confirmed",
    "telegram: the beginning of a reply is sent",
    "discord: a message has just been written",
    "discord: a whole reply is sent",
    "the model is writing",
    "a tool runs",
)


async def test_nothing_is_lost_when_hermes_is_killed(tmp_path: Path) -> None:
    """Seven kills at seven kinds of moments: each message has one row, one turn and one complete visible reply."""
    deck = [moment for moment in MOMENTS if moment.name in DECK]
    assert len(deck) == len(DECK)
    report = await run_kill_test(tmp_path / "home", kills=len(deck), seed=7, deck=deck)
    assert sum(report.kills.values()) >= len(deck) - 1, summary(report)
    violations = report.verdict.violations
    assert not violations, summary(report) + "\n" + evidence(report.chaos, violations)
    assert not report.damage
    assert not report.chaos.model.refusals, "Hermes asked its model something malformed"
