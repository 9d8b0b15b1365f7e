"""Input cost with prompt caching, as a fraction of the cost without: recorded transcripts, Anthropic's rules.

All conversations share one account, and so the cached tools and system prompt. They follow each other, as from one
person, or a new one begins every minute, as from many. Each request begins with the tools of Hermes, because the
transcripts have none. Tokens are estimates; a cache entry has at least 1,024.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from agent.prompt_caching import (
    LIFETIME,
    READ_PRICE,
    WRITE_PRICE,
    PromptCaching,
    Strategy,
)
from agent.tokens import estimate_text_tokens
from agent.tool import discover
from agent.toolbox import Toolbox
from tests.fakes.anthropic.cache import Block, PromptCache

TRANSCRIPTS = Path(__file__).resolve().parents[2] / "shared" / "data" / "tau_airline_dev.json"
MODEL = "anthropic/claude-sonnet-4-5"
STEP_SECONDS = 5.0
"""Between two model calls of one turn."""
BLOCK_TOKENS = 4
"""Overhead of a block."""
CALLS_AT_ONCE = 12

Row = tuple[str, str, str, str]
ChatDict = dict[str, Any]
Gaps = Callable[[random.Random], float]


@dataclass(frozen=True, slots=True)
class Pattern:
    name: str
    gaps: Gaps
    """Seconds a person takes for the next message."""
    parallel: bool = False
    """Twelve tool calls in each step, at a provider that counts every block when it looks back."""


PATTERNS = (
    Pattern("40 s", lambda _: 40.0),
    Pattern("mixed", lambda rng: rng.choices((40.0, 600.0, 2400.0, 7200.0), (50, 25, 15, 10))[0]),
    Pattern("10 min", lambda _: 600.0),
    Pattern("40 s, 12 calls at once", lambda _: 40.0, parallel=True),
)


@dataclass(frozen=True, slots=True)
class Request:
    at: float
    session: str
    messages: list[ChatDict]


Conversation = list[Request]


def rows() -> list[Row]:
    return [*_cost_rows(), *_marker_rows()]


def _cost_rows() -> Iterator[Row]:
    if not TRANSCRIPTS.exists():
        yield "cost", "skipped: ../shared/data is not here", "-", "-"
        return
    transcripts = json.loads(TRANSCRIPTS.read_text())
    tools = Toolbox(list(discover().values())).definitions
    for pattern in PATTERNS:
        for people, every in (("one person", None), ("many", 60.0)):
            yield _cost_row(f"{pattern.name}; {people}", simulate(transcripts, pattern, every, tools))


def _cost_row(name: str, cost: dict[str, float]) -> Row:
    figures = ", ".join(f"{who} {fraction:.3f}" for who, fraction in cost.items())
    above = cost["turn_aware"] / cost["system_and_3"] - 1
    return name, figures, f"turn_aware {above:+.1%}, at most +3 %", "-"


def simulate(
    transcripts: Sequence[list[ChatDict]], pattern: Pattern, every: float | None, tools: Sequence[ChatDict]
) -> dict[str, float]:
    """Return the fraction for each strategy, and the lowest possible one, for an oracle that knows the future."""
    if pattern.parallel:
        transcripts = [_widen(transcript) for transcript in transcripts]
    conversations = _schedule(transcripts, pattern.gaps, every)
    plain = sum(_tokens(request, tools) for conversation in conversations for request in conversation)
    paid = {
        "system_and_3": _replay(conversations, tools, "system_and_3", pattern),
        "turn_aware": _replay(conversations, tools, "turn_aware", pattern),
        "oracle": _least(conversations, tools),
    }
    return {who: cost / plain for who, cost in paid.items()}


def _schedule(transcripts: Sequence[list[ChatDict]], gaps: Gaps, every: float | None) -> list[Conversation]:
    rng, begin, conversations = random.Random(1), 0.0, []
    for number, transcript in enumerate(transcripts):
        conversation = list(_requests(transcript, str(number), begin, gaps, rng))
        conversations.append(conversation)
        begin = conversation[-1].at + gaps(rng) if every is None else begin + every
    return conversations


def _requests(
    transcript: list[ChatDict], session: str, begin: float, gaps: Gaps, rng: random.Random
) -> Iterator[Request]:
    """Yield a request for each assistant message, with the messages before it."""
    now = begin
    for index, message in enumerate(transcript):
        if message["role"] == "assistant":
            yield Request(now, session, transcript[:index])
        elif message["role"] == "tool":
            now += STEP_SECONDS / (CALLS_AT_ONCE if transcript[index - 1]["role"] == "tool" else 1)
        elif message["role"] == "user" and index > 1:
            now += gaps(rng)


def _replay(
    conversations: Sequence[Conversation], tools: Sequence[ChatDict], strategy: Strategy, pattern: Pattern
) -> float:
    """Return the cost of all requests in the order of time, in uncached input tokens."""
    now = 0.0
    cache = PromptCache(clock=lambda: now, minimum_tokens=1024, runs_count_once=not pattern.parallel)
    caching = PromptCaching(strategy=strategy, clock=lambda: now)
    paid = 0.0
    for request in _in_time(conversations):
        now = request.at
        marked = caching.mark(request.session, MODEL, request.messages, tools)
        bill = cache.account([*map(_tool_block, marked.tools), *_blocks(marked.messages)])
        written = WRITE_PRICE["5m"] * bill.written_5m + WRITE_PRICE["1h"] * bill.written_1h
        paid += READ_PRICE * bill.read + written + bill.fresh
    return paid


def _in_time(conversations: Sequence[Conversation]) -> list[Request]:
    return sorted((r for conversation in conversations for r in conversation), key=lambda r: r.at)


def _least(conversations: Sequence[Conversation], tools: Sequence[ChatDict]) -> float:
    """Return a lower bound: each request is cached for 5 minutes, for an hour or not at all, whichever is cheapest.

    Every entry can be read, and tools and system prompt are cached if any request came within the hour.
    """
    alone = _after_an_hour_of_silence(conversations)
    return sum(_cheapest(conversation, tools, alone) for conversation in conversations)


def _after_an_hour_of_silence(conversations: Sequence[Conversation]) -> set[int]:
    """Return the requests that find an empty cache, by identity."""
    in_time = _in_time(conversations)
    late = (after for before, after in pairwise(in_time) if after.at - before.at >= LIFETIME["1h"])
    return {id(in_time[0]), *map(id, late)}


def _cheapest(conversation: Conversation, tools: Sequence[ChatDict], alone: set[int]) -> float:
    """Try all choices. `best` maps the tokens readable after a short and after a longer pause to the least cost."""
    head = _tokens(Request(0.0, "", conversation[0].messages[:1]), tools)
    best: dict[tuple[int, int], float] = {(0, 0): 0.0}
    asked_at = conversation[0].at
    for request in conversation:
        pause, asked_at = request.at - asked_at, request.at
        shared = 0 if id(request) in alone else head
        total = _tokens(request, tools)
        after: dict[tuple[int, int], float] = {}
        for kept, cost in best.items():
            short, lasting = _survivors(kept, pause, shared)
            choices = {
                (short, lasting): 1.0,
                (total, lasting): WRITE_PRICE["5m"],
                (total, total): WRITE_PRICE["1h"],
            }
            for left, price in choices.items():
                so_far = cost + READ_PRICE * short + price * (total - short)
                after[left] = min(so_far, after.get(left, so_far))
        best = after
    return min(best.values())


def _survivors(kept: tuple[int, int], pause: float, shared: int) -> tuple[int, int]:
    short, lasting = kept
    if pause >= LIFETIME["1h"]:
        short = lasting = 0
    elif pause >= LIFETIME["5m"]:
        short = lasting
    return max(short, shared), max(lasting, shared)


def _tokens(request: Request, tools: Sequence[ChatDict]) -> int:
    return sum(block.tokens for block in (*map(_tool_block, tools), *_blocks(request.messages)))


def _blocks(messages: Sequence[ChatDict]) -> Iterator[Block]:
    for message in messages:
        content = message.get("content") or ""
        if message["role"] == "tool":
            yield _block(content, "tool_result", message.get("cache_control"))
        elif isinstance(content, list):
            yield from (_block(part["text"], "text", part.get("cache_control")) for part in content)
        elif content:
            yield _block(content, "text", None)
        for call in message.get("tool_calls") or ():
            yield _block(json.dumps(call, sort_keys=True), "tool_use", None)


def _tool_block(tool: ChatDict) -> Block:
    return _block(json.dumps(tool["function"]), "tool", tool.get("cache_control"))


def _block(text: str, kind: str, marker: ChatDict | None) -> Block:
    ttl = marker.get("ttl", "5m") if marker else None
    return Block(text, estimate_text_tokens(text) + BLOCK_TOKENS, kind, ttl)


def _widen(transcript: list[ChatDict]) -> list[ChatDict]:
    """Replace each tool call by twelve calls with as many results."""
    wide: list[ChatDict] = []
    for message in transcript:
        if message.get("tool_calls"):
            calls = [
                {**call, "id": f"{call['id']}-{n}"}
                for call in message["tool_calls"]
                for n in range(CALLS_AT_ONCE)
            ]
            wide.append({**message, "tool_calls": calls})
        elif message["role"] == "tool":
            wide += (
                {**message, "tool_call_id": f"{message['tool_call_id']}-{n}"} for n in range(CALLS_AT_ONCE)
            )
        else:
            wide.append(message)
    return wide


def _marker_rows() -> Iterator[Row]:
    """Mark a history of 10,000 messages that grows by two before each request."""
    for strategy in ("system_and_3", "turn_aware"):
        caching = PromptCaching(strategy=strategy)
        history: list[ChatDict] = [{"role": "system", "content": "s"}]
        history += ({"role": ("user", "assistant")[n % 2], "content": f"m {n}"} for n in range(10_000))
        caching.mark("s", MODEL, history, ())
        spent = []
        for n in range(100):
            history += ({"role": "assistant", "content": f"a {n}"}, {"role": "user", "content": f"u {n}"})
            began = time.process_time()
            caching.mark("s", MODEL, history, ())
            spent.append(time.process_time() - began)
        figure = f"{min(spent) * 1000:.3f} ms"  # of the least disturbed request
        yield f"{strategy} on 10k messages, CPU", figure, "< 0.1 ms", "linear (one list copy)"
