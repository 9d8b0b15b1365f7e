"""What the strategies cost on recorded conversations, by the same simulation that `make bench` prints."""

from __future__ import annotations

import json

import pytest

from agent.tool import discover
from agent.toolbox import Toolbox
from bench.caching import PATTERNS, TRANSCRIPTS, Pattern, simulate

CONVERSATIONS = 25
"""Enough that the hour for the shared tools and system prompt has paid off."""


@pytest.fixture
def cost(pattern: Pattern) -> dict[str, float]:
    """One person's conversations, one after the other."""
    if not TRANSCRIPTS.exists():
        pytest.skip(f"the public transcripts are not beside the project ({TRANSCRIPTS.name})")
    transcripts = json.loads(TRANSCRIPTS.read_text(encoding="utf-8"))[:CONVERSATIONS]
    return simulate(transcripts, pattern, None, Toolbox(list(discover().values())).definitions)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
def test_turn_aware_is_hardly_ever_dearer(pattern: Pattern, cost: dict[str, float]) -> None:
    """Without pauses the cost is about the same; no strategy beats one that knows the future."""
    assert cost["turn_aware"] <= 1.03 * cost["system_and_3"]
    assert cost["oracle"] <= min(cost["turn_aware"], cost["system_and_3"])


@pytest.mark.parametrize("pattern", PATTERNS[1:], ids=lambda pattern: pattern.name)
def test_turn_aware_is_much_cheaper_with_pauses_and_wide_steps(
    pattern: Pattern, cost: dict[str, float]
) -> None:
    """Half the price or less, and not far from the best there is."""
    assert cost["turn_aware"] < 0.55 * cost["system_and_3"]
    assert cost["turn_aware"] < 1.3 * cost["oracle"]
