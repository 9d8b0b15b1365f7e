"""The configuration of a Hermes with this engine and a small window."""

from __future__ import annotations

from typing import Any

from tests.fakes.openai.server import FakeOpenAI
from tests.support.long_chat import small_window


def with_lcm(world: FakeOpenAI, **options: Any) -> dict[str, Any]:
    """`options`: those of the engine."""
    return {
        **small_window(world, memory_flush=False),
        "context": {"engine": "lcm", **({"options": options} if options else {})},
    }
