"""Facts about the person."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agent.errors import ToolError
from agent.tool import ToolContext
from agent.tools.memory import MAX_FACT_CHARS, MAX_PERSON_CHARS, memory
from tests.support.tool_conversation import Run


async def test_a_fact_is_remembered_and_forgotten(run: Run, ctx: ToolContext) -> None:
    """Added, listed, forgotten by its id."""
    assert (await run("memory", action="list")).content == "Nothing is remembered yet."
    await run("memory", action="add", text="  likes\n green   tea ")
    [fact] = await ctx.store.facts("anna")
    assert fact.text == "likes green tea"
    assert (await run("memory", action="list")).content == f"{fact.id}: likes green tea"
    assert (await run("memory", action="forget", fact_id=fact.id)).ok
    assert await ctx.store.facts("anna") == []


async def test_a_fact_is_kept_once(run: Run, ctx: ToolContext) -> None:
    """Saying it again adds nothing."""
    await run("memory", action="add", text="likes tea")
    assert (await run("memory", action="add", text="Likes tea")).content == "That is remembered already."
    assert len(await ctx.store.facts("anna")) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"action": "add"}, "`text` is empty"),
        ({"action": "add", "text": "x" * 301}, "at most 300 characters, this one 301; shorten it."),
        ({"action": "forget", "fact_id": "fact_0"}, "there is no fact `fact_0`; `list` shows the ids."),
        ({"action": "erase"}, "`action`: input should be 'add', 'list' or 'forget'"),
    ],
)
async def test_what_is_refused(run: Run, arguments: dict[str, str], sentence: str) -> None:
    """With a sentence each."""
    result = await run("memory", **arguments)
    assert not result.ok
    assert sentence in result.content


async def test_a_full_memory_says_what_to_forget(run: Run, ctx: ToolContext) -> None:
    """The oldest facts are offered with their ids, and following the advice makes room."""
    for number in range(MAX_PERSON_CHARS // MAX_FACT_CHARS + 1):
        last = await run("memory", action="add", text=f"{number:04}".ljust(MAX_FACT_CHARS, "x"))
    assert not last.ok
    facts = await ctx.store.facts("anna")
    assert sum(len(fact.text) for fact in facts) <= MAX_PERSON_CHARS
    missing = (len(facts) + 1) * MAX_FACT_CHARS - MAX_PERSON_CHARS
    assert f"forget facts of {missing} characters or more first" in last.content
    assert facts[0].id in last.content
    assert facts[-1].id not in last.content
    await run("memory", action="forget", fact_id=facts[0].id)
    assert (await run("memory", action="add", text="y" * MAX_FACT_CHARS)).ok


async def test_the_bound_holds_for_calls_at_the_same_time(ctx: ToolContext) -> None:
    """Twenty at once do not slip past the check together."""
    calls = [memory.call(ctx, {"action": "add", "text": f"{n:04}".ljust(300, "x")}) for n in range(20)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(result, ToolError) for result in results) == 7
    assert sum(len(fact.text) for fact in await ctx.store.facts("anna")) <= MAX_PERSON_CHARS


async def test_facts_belong_to_one_person(ctx: ToolContext, run: Run) -> None:
    """Another person neither sees nor forgets them, and without a person there are none."""
    await run("memory", action="add", text="likes tea")
    [fact] = await ctx.store.facts("anna")
    ben = replace(ctx, person="ben")
    assert await memory.call(ben, {"action": "list"}) == "Nothing is remembered yet."
    with pytest.raises(ToolError, match="there is no fact"):
        await memory.call(ben, {"action": "forget", "fact_id": fact.id})
    assert await ctx.store.facts("anna") == [fact]
    with pytest.raises(ToolError, match="no known person"):
        await memory.call(replace(ctx, person=""), {"action": "list"})
