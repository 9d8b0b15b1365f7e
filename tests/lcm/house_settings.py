"""The configuration of a Hermes with this engine and a small window."""

from __future__ import annotations

from typing import Any

from tests.worlds.long_chat import small_window
from tests.worlds.openai import OpenAIWorld


def with_lcm(world: OpenAIWorld, **options: Any) -> dict[str, Any]:
    """`options`: those of the engine."""
    return {
        **small_window(world, memory_flush=False),
        "context": {"engine": "lcm", **({"options": options} if options else {})},
    }
