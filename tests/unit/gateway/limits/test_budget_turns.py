"""The daily budget where money is spent: in the middle of an answer, in summaries, in the background."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent.events import Compacted, Notice, TextDelta, TurnDone, TurnFailed
from agent.llm import Completion
from agent.messages import ToolCall
from tests.support.limits_harness import ANNA, BOB, GROUP, BudgetHarness, costs, open_budget, text_of

DAY = 86_400
LONG = "word " * 60


async def _talk(harness: BudgetHarness, turns: int, *, usd: float = 0.01, tokens: int = 500) -> None:
    """Turns of about 120 tokens each."""
    for number in range(turns):
        harness.llm.then(costs(usd, f"Answer {number}. " + "detail " * 60, tokens=tokens))
        assert isinstance((await harness.say(f"Question {number}. {LONG}"))[-1], TurnDone)


async def test_an_answer_ends_in_the_middle_when_the_money_is_gone(tmp_path: Path) -> None:
    """After the second step nothing more is asked; what was done is kept, and the next day goes on from there."""
    steps = costs(0.6, looks=True), costs(0.6, looks=True), costs(0.1, "As I saw.")
    async with open_budget(tmp_path, *steps, daily_usd_per_person=1.0) as harness:
        conversation_id, after = await harness.send("look twice")
        failed = (await harness.until_over(conversation_id, after))[-1]
        assert isinstance(failed, TurnFailed)
        assert "You have spent $1.20 of $1.00 today" in failed.error and "midnight" in failed.error
        assert len(harness.llm.requests) == 2
        kept = await harness.store.sessions.transcript(conversation_id)
        assert [message.role for message in kept] == ["user", "assistant", "tool", "assistant", "tool"]

        assert isinstance((await harness.say("go on"))[-1], TurnFailed)
        assert len(harness.llm.requests) == 2
        harness.ahead[0] = DAY
        assert (await harness.say("go on now"))[-1] == TurnDone("As I saw.")
        roles = [message["role"] for message in harness.llm.requests[-1].messages]
        assert roles == ["system", "user", "assistant", "tool", "assistant", "tool", "user", "user"]


async def test_others_go_on_until_everybody_has_spent_too_much(tmp_path: Path) -> None:
    """One person's cap is theirs; the cap of all is for all."""
    steps = [costs(0.6)] * 4
    async with open_budget(tmp_path, *steps, daily_usd_per_person=1.0, daily_usd_total=2.0) as harness:
        for person in (ANNA, ANNA, BOB):
            assert isinstance((await harness.say("hi", person))[-1], TurnDone)
        assert "You have" in text_of((await harness.say("hi", ANNA))[-1])
        assert isinstance((await harness.say("hi", BOB))[-1], TurnDone)
        assert "All people together have spent $2.40 of $2.00" in text_of(
            (await harness.say("hi", "telegram:3"))[-1]
        )
        assert len(harness.llm.requests) == 4


async def test_in_a_group_the_one_who_asks_pays(tmp_path: Path) -> None:
    """The conversation is shared, the cap is per person."""
    async with open_budget(tmp_path, costs(1.5), costs(0.1), daily_usd_per_person=1.0) as harness:
        await harness.say("dear", ANNA, GROUP)
        assert isinstance((await harness.say("more", ANNA, GROUP))[-1], TurnFailed)
        assert isinstance((await harness.say("cheap", BOB, GROUP))[-1], TurnDone)
        assert [await harness.spent(person) for person in (ANNA, BOB, None)] == [1.5, 0.1, 1.6]


async def test_a_turn_that_cannot_be_paid_compacts_nothing(tmp_path: Path) -> None:
    """A summary without budget is not replaced by a poor one: the session stays unchanged."""
    async with open_budget(tmp_path, daily_usd_per_person=1.0) as harness:
        await _talk(harness, 12)
        harness.llm.then(costs(1.0, tokens=2_100))
        await harness.say("the last one")
        events = await harness.say("and now?")
        assert isinstance(events[-1], TurnFailed)
        assert not any(isinstance(event, Compacted | Notice) for event in events)
        assert not harness.helper.requests


async def test_a_summary_in_the_middle_of_a_turn_is_not_paid_beyond_the_cap(tmp_path: Path) -> None:
    """The step before has used up the money: no summary is asked for, none is made up, and the turn ends."""
    async with open_budget(tmp_path, daily_usd_per_person=1.0) as harness:
        await _talk(harness, 12)
        harness.llm.then(costs(1.0, looks=True, tokens=2_100))
        conversation_id, after = await harness.send("look")
        events = await harness.until_over(conversation_id, after)
        assert isinstance(events[-1], TurnFailed) and "daily budget" in events[-1].error
        assert len(await harness.store.sessions.sessions(conversation_id)) == 1
        assert not harness.helper.requests


async def test_summaries_are_paid_by_whoever_led_to_them(tmp_path: Path) -> None:
    """Also those written in the background, after the turn."""
    async with open_budget(tmp_path) as harness:
        harness.helper.then(costs(0.25, "## Goal\nTo test."))
        await _talk(harness, 12)
        harness.llm.then(costs(0.01, tokens=1_700), costs(0.01))
        await harness.say("near the threshold")
        await harness.say("hi", BOB)
        async with asyncio.timeout(20):
            while await harness.spent() < 0.25:  # noqa: ASYNC110 - it is written in a task of its own
                await asyncio.sleep(0.005)
        assert await harness.spent(ANNA) == pytest.approx(12 * 0.01 + 0.01 + 0.25)
        assert await harness.spent(BOB) == pytest.approx(0.01)


async def test_a_summary_of_many_pieces_stops_when_the_money_is_gone(tmp_path: Path) -> None:
    """Each piece is a call of its own, and the budget is asked before each."""
    async with open_budget(tmp_path, daily_usd_per_person=1.0) as harness:
        await _talk(harness, 40, usd=0.0)
        harness.helper.then(
            costs(0.7, "## Goal\nOne."), costs(0.7, "## Goal\nTwo."), costs(0.7, "## Goal\nThree.")
        )
        told = text_of((await harness.say("/compress"))[-2])
        assert "daily budget" in told
        assert len(harness.helper.requests) == 2
        assert await harness.spent(ANNA) == 1.4


async def test_facts_are_not_noted_on_credit(tmp_path: Path) -> None:
    """The memory flush before a compaction is a call too; without budget it is skipped, and the summary is kept."""
    async with open_budget(tmp_path, flush=True, daily_usd_per_person=1.0) as harness:
        await _talk(harness, 12)
        asked = len(harness.llm.requests)
        harness.helper.then(costs(1.0, "## Goal\nTo test."))
        conversation_id, after = await harness.send("/compress")
        await harness.until_over(conversation_id, after)
        assert len(await harness.store.sessions.sessions(conversation_id)) == 2
        assert len(harness.llm.requests) == asked

    async with open_budget(tmp_path, flush=True) as harness:
        await _talk(harness, 12)
        harness.helper.then(costs(0.5, "## Goal\nTo test."))
        note = ToolCall("c1", "memory", '{"action": "add", "text": "Likes tea."}')
        harness.llm.then(Completion("", (note,), "tool_calls", costs(0.125).usage))
        await harness.say("/compress")
        assert await harness.spent(ANNA) == pytest.approx(12 * 0.01 + 0.5 + 0.125)


async def test_trying_a_model_costs_money_too(tmp_path: Path) -> None:
    """`/model` asks it something before it switches."""
    async with open_budget(tmp_path, costs(0.1), daily_usd_per_person=1.0) as harness:
        harness.other.then(costs(0.95))
        await harness.say("/model scripted/other", is_admin=True)
        assert await harness.spent(ANNA) == 0.95
        harness.other.then(costs(0.10))
        assert isinstance((await harness.say("hi"))[-1], TurnDone)
        assert isinstance((await harness.say("hi"))[-1], TurnFailed)


async def test_whoever_stops_in_time_pays_as_well(tmp_path: Path) -> None:
    """The provider charges for a cancelled call without reporting usage."""
    async with open_budget(tmp_path, daily_usd_per_person=0.02, unknown_price=10.0) as harness:
        gate = asyncio.Event()
        for number in range(20):
            harness.llm.then(["Slowly", gate, "."])
            conversation_id, after = await harness.send(f"{number} {'word ' * 300}")
            if not await _speaks(harness, conversation_id, after):
                break
            await harness.send("/stop")
            await harness.until_over(conversation_id, after)
        assert 1 < len(harness.llm.requests) < 10
        assert (await harness.limits.budget.of_person(ANNA)).unknown_calls == len(harness.llm.requests)
        assert await harness.spent() == 0


async def _speaks(harness: BudgetHarness, conversation_id: str, after: int) -> bool:
    """Whether the model has begun; False if the turn has failed."""
    with harness.gateway.hub.watch(conversation_id, after=after) as watcher:
        async for envelope in watcher:
            if envelope.number > after and isinstance(envelope.event, TextDelta | TurnFailed):
                return isinstance(envelope.event, TextDelta)
    return False


async def test_commands_need_no_money(tmp_path: Path) -> None:
    """A person without budget can still see the usage and reset the session."""
    async with open_budget(tmp_path, costs(2.0), daily_usd_per_person=1.0) as harness:
        await harness.say("dear")
        for command in ("/usage", "/help", "/reset"):
            events = await harness.say(command)
            assert any(isinstance(event, Notice) for event in events)
            assert isinstance(events[-1], TurnDone)
