"""Simulated input cost with prompt caching, as a fraction of the cost without (real transcripts, real rules)."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agent.prompt_caching import TurnAwareCache, apply_anthropic_cache_control
from tests.worlds.anthropic_cache import Block, PromptCache

TRANSCRIPTS = Path(__file__).resolve().parents[2] / "shared" / "data" / "tau_airline_dev.json"
READ, WRITE_5M, WRITE_1H = 0.1, 1.25, 2.0
STEP_SECONDS = 5.0
"""Between two model calls of one turn."""

ChatDict = dict[str, Any]
Marker = Callable[[list[ChatDict]], list[ChatDict]]
Gaps = Callable[[random.Random], float]

PATTERNS: dict[str, Gaps] = {
    "40 s between user turns": lambda _: 40.0,
    "mixed gaps (40 s, 10 min, 40 min, 2 h)": lambda rng: rng.choices(
        (40, 600, 2400, 7200), (50, 25, 15, 10)
    )[0],
    "10 min gaps": lambda _: 600.0,
    "40 s, 12 parallel tool calls a step": lambda _: 40.0,
}


def rows() -> list[tuple[str, str, str, str]]:
    if not TRANSCRIPTS.exists():
        return [("simulated cost", "skipped: ../shared/data is not here", "-", "-")]
    transcripts = json.loads(TRANSCRIPTS.read_text())
    table = [_cost_row(name, gaps, transcripts) for name, gaps in PATTERNS.items()]
    return [*table, _marker_row()]


def _cost_row(name: str, gaps: Gaps, transcripts: list[list[ChatDict]]) -> tuple[str, str, str, str]:
    if "parallel" in name:
        transcripts = [_widen(transcript, 12) for transcript in transcripts]
    three = _replay(transcripts, gaps, lambda clock: apply_anthropic_three)
    aware = _replay(transcripts, gaps, lambda clock: _turn_aware(clock))
    oracle = _oracle(transcripts, gaps)
    figures = f"system_and_3 {three:.3f}, turn_aware {aware:.3f}, oracle {oracle:.3f}"
    return name, figures, "turn_aware near the oracle", "linear in requests"


def apply_anthropic_three(messages: list[ChatDict]) -> list[ChatDict]:
    return apply_anthropic_cache_control(messages, "5m", native_anthropic=True)


def _turn_aware(clock: Callable[[], float]) -> Marker:
    cache = TurnAwareCache(native_anthropic=True, clock=clock)
    return lambda messages: cache.mark(messages, ()).messages


def _replay(
    transcripts: Sequence[list[ChatDict]], gaps: Gaps, strategy: Callable[[Callable[[], float]], Marker]
) -> float:
    """Every request of every transcript through the provider's cache rules."""
    rng, paid, plain = random.Random(1), 0.0, 0.0
    for transcript in transcripts:
        now = [0.0]
        cache = PromptCache(clock=lambda now=now: now[0], minimum_tokens=1024)
        mark = strategy(lambda now=now: now[0])
        for request in _requests(transcript, gaps, rng, now):
            bill = cache.account([block for message in mark(request) for block in _blocks(message)])
            paid += READ * bill.read + WRITE_5M * bill.written_5m + WRITE_1H * bill.written_1h + bill.fresh
            plain += bill.read + bill.written_5m + bill.written_1h + bill.fresh
    return paid / plain


def _oracle(transcripts: Sequence[list[ChatDict]], gaps: Gaps) -> float:
    """A cache that never expires and whose writes cost what the cheapest write costs."""
    rng, paid, plain = random.Random(1), 0.0, 0.0
    for transcript in transcripts:
        known = 0
        for request in _requests(transcript, gaps, rng, [0.0]):
            total = sum(block.tokens for message in request for block in _blocks(message))
            paid += READ * known + WRITE_5M * (total - known)
            plain += total
            known = total
    return paid / plain


def _requests(
    transcript: list[ChatDict], gaps: Gaps, rng: random.Random, now: list[float]
) -> Iterator[list[ChatDict]]:
    """The messages before each assistant message, with the clock moved as people and tools would."""
    for index, message in enumerate(transcript):
        if message["role"] == "assistant":
            now[0] += gaps(rng) if transcript[index - 1]["role"] == "user" else STEP_SECONDS
            yield transcript[:index]


def _blocks(message: ChatDict) -> Iterator[Block]:
    kind = "tool_result" if message["role"] == "tool" else "text"
    own = message.get("cache_control")
    content = message.get("content") or ""
    parts = content if isinstance(content, list) else [{"text": content, "cache_control": own}]
    for part in parts:
        yield _block(str(part.get("text")), kind, part.get("cache_control"))
    for call in message.get("tool_calls") or ():
        yield _block(json.dumps(call, sort_keys=True), "tool_use", None)


def _block(text: str, kind: str, marker: ChatDict | None) -> Block:
    return Block(text, len(text) // 4 + 1, kind, marker.get("ttl", "5m") if marker else None)


def _widen(transcript: list[ChatDict], width: int) -> list[ChatDict]:
    """Each tool call as `width` calls with as many results."""
    wide: list[ChatDict] = []
    for message in transcript:
        if message.get("tool_calls"):
            wide.append({**message, "tool_calls": list(message["tool_calls"]) * width})
        else:
            wide += [message] * (width if message["role"] == "tool" else 1)
    return wide


def _marker_row() -> tuple[str, str, str, str]:
    history = [{"role": "system", "content": "s"}]
    history += [{"role": ("user", "assistant")[i % 2], "content": f"m {i}"} for i in range(10_000)]
    began = time.process_time()
    for _ in range(100):
        apply_anthropic_cache_control(history, "5m")
    spent = (time.process_time() - began) * 10
    return "cache markers on 10k messages, CPU", f"{spent:.3f} ms", "< 0.1 ms", "linear (one list copy)"
