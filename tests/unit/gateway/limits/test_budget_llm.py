"""The budget guard: it checks every model call, with the name of the spender."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field

import pytest

from agent.errors import BudgetReached, NetworkFailed, QuotaExhausted, RateLimited, StreamCut
from agent.llm import ChatRequest, Completion, Retrying, TextChunk, Usage
from agent.llm.guards import budget_guard, spender, spending_for
from agent.llm.retry import RetryingLLM
from agent.testing import ScriptedLLM

ASK = ChatRequest([{"role": "user", "content": "word " * 400}])


@dataclass
class RecordingBudget:
    """Implements `Budget`."""

    is_empty: bool = False
    asked: list[str] = field(default_factory=list)
    prices: list[tuple[str, float | None]] = field(default_factory=list)
    abandoned: list[tuple[str, str, int]] = field(default_factory=list)

    async def check(self, spender: str) -> None:
        self.asked.append(spender)
        if self.is_empty:
            raise BudgetReached

    def note_price(self, model: str, usage: Usage) -> None:
        self.prices.append((model, usage.cost_usd))

    def note_abandoned(self, spender: str, model: str, tokens: int) -> None:
        self.abandoned.append((spender, model, tokens))


def budgeted(llm: ScriptedLLM, budget: RecordingBudget) -> RetryingLLM:
    return RetryingLLM([llm], attempts=1, guards=[budget_guard(budget)])


async def _streamed(llm: RetryingLLM) -> str:
    return "".join([event.text async for event in llm.stream(ASK) if isinstance(event, TextChunk)])


async def test_it_is_asked_before_every_call() -> None:
    """For every kind of call, with the name of the spender."""
    budget, inner = (
        RecordingBudget(),
        ScriptedLLM(["One.", Completion("Two.", usage=Usage(1, 1, cost_usd=0.5), model="m")]),
    )
    llm = budgeted(inner, budget)
    with spending_for("ada"):
        assert await _streamed(llm) == "One."
        assert (await llm.complete(ASK)).text == "Two."
    assert budget.asked == ["ada", "ada"]
    assert budget.prices == [("scripted/model", 0.0), ("m", 0.5)]
    budget.is_empty = True
    with pytest.raises(BudgetReached):
        await _streamed(llm)
    with pytest.raises(BudgetReached):
        await llm.complete(ASK)
    assert len(inner.requests) == 2 and not budget.abandoned


async def test_it_is_otherwise_the_model_itself() -> None:
    """Name, window, tools, and its end."""
    inner = ScriptedLLM(model="m", context_length=7, supports_tools=False)
    llm = budgeted(inner, RecordingBudget())
    assert (llm.model, llm.context_length, llm.supports_tools) == ("m", 7, False)
    await llm.close()
    assert inner.closed


async def test_what_is_stopped_is_noted_with_an_estimate() -> None:
    """By closing the stream, or by cancelling the waiting task."""
    budget, gate = RecordingBudget(), asyncio.Event()
    llm = budgeted(ScriptedLLM([["Slowly ", gate]] * 3), budget)
    with spending_for("ada"):
        async with aclosing(llm.stream(ASK)) as events:
            await anext(events)
    for ask in (_streamed(llm), llm.complete(ASK)):
        waiting = asyncio.create_task(ask)
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    assert [(who, model) for who, model, _ in budget.abandoned] == [
        ("ada", "scripted/model"),
        ("", "scripted/model"),
        ("", "scripted/model"),
    ]
    assert all(500 <= tokens <= 520 for *_, tokens in budget.abandoned)


async def test_what_fails_costs_only_if_something_came() -> None:
    """A refusal is free; a stream that was cut is not."""
    budget = RecordingBudget()
    llm = budgeted(ScriptedLLM([RateLimited(), ["Half", StreamCut(partial_text="Half")]]), budget)
    with pytest.raises(RateLimited):
        await _streamed(llm)
    assert not budget.abandoned
    with pytest.raises(StreamCut):
        await _streamed(llm)
    assert len(budget.abandoned) == 1


async def test_every_attempt_of_a_chain_is_asked_for() -> None:
    """What broke off on the way counts; a refusal and a provider that was not reached are free."""
    budget = RecordingBudget()
    failures = [["Half", StreamCut()], RateLimited(), NetworkFailed(), NetworkFailed(was_sent=True)]
    first = ScriptedLLM(failures, model="first")
    second = ScriptedLLM(["Half a loaf."], model="second")
    chain = RetryingLLM([first, second], first_wait=0, guards=[budget_guard(budget)])
    with spending_for("ada"):
        answer = await chain.complete(ASK)
    assert answer.text == "Half a loaf."
    assert budget.asked == ["ada"] * 5
    assert [(who, model) for who, model, _ in budget.abandoned] == [("ada", "first")] * 2
    assert budget.prices == [("second", 0.0)]


async def test_when_the_money_is_gone_no_other_model_is_asked() -> None:
    """Amid a chain as at its beginning, and it is not called trouble of a model."""

    class Thin(RecordingBudget):
        def note_abandoned(self, spender: str, model: str, tokens: int) -> None:
            self.is_empty = True

    second = ScriptedLLM(["Never."])
    first = ScriptedLLM([StreamCut()])
    chain = RetryingLLM([first, second], first_wait=0, guards=[budget_guard(Thin())])
    events = []
    with pytest.raises(BudgetReached):
        async for event in chain.stream(ASK):
            events.append(event)
    assert [type(event) for event in events] == [Retrying]  # of the one that was cut
    assert not second.requests


async def test_a_whole_answer_is_not_abandoned() -> None:
    """The loop closes the stream once it has the answer."""
    budget = RecordingBudget()
    async with aclosing(budgeted(ScriptedLLM(["Yes."]), budget).stream(ASK)) as events:
        async for event in events:
            if isinstance(event, Completion):
                break
    assert not budget.abandoned


async def test_tasks_and_threads_spend_for_whoever_started_them() -> None:
    """And two people at once do not pay for each other."""

    async def later(gate: asyncio.Event) -> tuple[str, str]:
        await gate.wait()
        return spender(), await asyncio.to_thread(spender)

    gate, waiting = asyncio.Event(), []
    for person in ("ada", "bob"):
        with spending_for(person):
            waiting.append(asyncio.create_task(later(gate)))
    assert spender() == ""
    gate.set()
    assert await asyncio.gather(*waiting) == [("ada", "ada"), ("bob", "bob")]


def test_nothing_covers_up_that_the_money_is_gone() -> None:
    """The compressor takes it like an empty account: it makes nothing up in the place of a summary."""
    assert issubclass(BudgetReached, QuotaExhausted) and not BudgetReached.transient
