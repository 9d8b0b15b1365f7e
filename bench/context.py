"""Context: compacting with an instant summariser, and the rough token estimate."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from agent.context_compressor import ContextCompressor
from agent.tokens import estimate_messages_tokens_rough

_ROUNDS = 7
_LARGEST_WINDOW = 200_000
_ORDERS = 997


def history(count: int) -> list[dict[str, Any]]:
    """A person, and an assistant that calls a tool in every second turn. Every second result is long."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are a helpful assistant. " * 20}]
    for turn in range(count):
        order = f"ORD-{turn % _ORDERS:05}"
        messages.append({"role": "user", "content": f"Please look at order {order} and tell me where it is."})
        if turn % 2:
            function = {"name": "get_status", "arguments": f'{{"order": "{order}"}}'}
            call = {"id": f"call_{turn}", "type": "function", "function": function}
            output = f'{{"order": "{order}", "state": "sent"}}' + " line of output" * (
                40 if turn % 4 == 1 else 2
            )
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})
        answer = f"Order {order} was sent on Tuesday with {turn} others. It should arrive within three working days."
        messages.append({"role": "assistant", "content": answer})
        if len(messages) >= count:
            break
    return messages[:count]


def _cpu(run: Callable[[], object]) -> float:
    """Best of several rounds, in milliseconds: the least disturbed one."""
    best = float("inf")
    for _ in range(_ROUNDS):
        began = time.process_time()
        run()
        best = min(best, time.process_time() - began)
    return best * 1000


def _compact(messages: list[dict[str, Any]]) -> None:
    window = min(_LARGEST_WINDOW, 40 * len(messages))
    engine = ContextCompressor(
        window, summarize=lambda prompt, max_tokens: "## Goal\nKnow where the orders are."
    )
    assert len(engine.compress(messages)) < len(messages)


def _compact_row(count: int, aim: str) -> tuple[str, str, str, str]:
    messages = history(count)
    return f"compress(), {count:,} messages, CPU", f"{_cpu(lambda: _compact(messages)):.1f} ms", aim, "linear"


def rows() -> list[tuple[str, str, str, str]]:
    messages = history(10_000)
    estimate = _cpu(lambda: estimate_messages_tokens_rough(messages))
    return [
        _compact_row(100, "-"),
        _compact_row(1_000, "-"),
        _compact_row(10_000, "< 45 ms"),
        _compact_row(100_000, "-"),
        ("estimate_messages_tokens_rough(), 10,000 messages, CPU", f"{estimate:.1f} ms", "< 5 ms", "linear"),
    ]
