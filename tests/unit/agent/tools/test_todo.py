"""The conversation's task list."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from agent.store import Address
from agent.tool import ToolContext
from agent.tools.todo import todo
from tests.support.tool_conversation import Run

LIST = [{"text": "plan"}, {"text": "build", "status": "in_progress"}, {"text": "rest", "id": 7}]


async def test_a_list_is_kept(run: Run) -> None:
    """Items without an id get one, and the list is there the next time."""
    assert (await run("todo")).content == "The task list is empty."
    expected = "[ ] 8. plan\n[~] 9. build\n[ ] 7. rest\n(0 of 3 done)"
    assert (await run("todo", action="replace", items=LIST)).content == expected
    assert (await run("todo")).content == expected


async def test_an_update_changes_what_is_given(run: Run) -> None:
    """A status alone leaves the text, a text alone the status; an item without an id is new."""
    await run("todo", action="replace", items=[{"text": "plan"}, {"text": "build", "status": "in_progress"}])
    changes = [{"id": 1, "status": "done"}, {"id": 2, "text": "build well"}, {"text": "rest"}]
    result = await run("todo", action="update", items=changes)
    assert result.content == "[x] 1. plan\n[~] 2. build well\n[ ] 3. rest\n(1 of 3 done)"


async def test_a_list_can_be_emptied(run: Run) -> None:
    """By replacing it with nothing."""
    await run("todo", action="replace", items=LIST)
    assert (await run("todo", action="replace", items=[])).content == "The task list is empty."


@pytest.mark.parametrize(
    ("action", "items", "sentence"),
    [
        ("update", [{"id": 9, "status": "done"}], "there is no item 9; the list has [1]."),
        ("update", [{"status": "done"}], "a new item needs a text."),
        ("replace", [{"id": 2, "text": "a"}, {"id": 2, "text": "b"}], "two items have the same id."),
        ("replace", [{"text": "a", "status": "someday"}], "`items.0.status`: input should be 'pending'"),
        ("replace", [{"text": "x" * 301}], "`items.0.text`: string should have at most 300 characters"),
        ("replace", [{"text": "x", "due": "now"}], "`items.0.due` is not a parameter."),
        ("replace", [{"text": "x"}] * 51, "`items`: list should have at most 50 items"),
        ("update", [{"text": "x"}] * 50, "at most 50 items"),
    ],
)
async def test_changes_that_are_refused(
    run: Run, action: str, items: list[dict[str, Any]], sentence: str
) -> None:
    """Nothing is changed by half."""
    await run("todo", action="replace", items=[{"text": "plan"}])
    result = await run("todo", action=action, items=items)
    assert not result.ok
    assert sentence in result.content
    assert (await run("todo")).content == "[ ] 1. plan\n(0 of 1 done)"


async def test_updates_at_the_same_time_all_arrive(ctx: ToolContext) -> None:
    """The model may call it several times in one answer."""
    calls = [todo.call(ctx, {"action": "update", "items": [{"text": f"task {n}"}]}) for n in range(10)]
    await asyncio.gather(*calls)
    lines = (await todo.call(ctx, {})).splitlines()
    assert lines == [*(f"[ ] {n + 1}. task {n}" for n in range(10)), "(0 of 10 done)"]


async def test_each_conversation_has_its_own(ctx: ToolContext, run: Run) -> None:
    """A list is not seen elsewhere."""
    await run("todo", action="replace", items=LIST)
    other = await ctx.store.open_conversation(Address("web", "elsewhere"), person=ctx.person)
    assert await todo.call(replace(ctx, conversation_id=other.id), {}) == "The task list is empty."


async def test_an_unreadable_list_is_begun_anew(ctx: ToolContext, run: Run) -> None:
    """State of another version must not make the tool useless for ever; the log tells."""
    await ctx.store.save_state(ctx.conversation_id, "todo", "{broken")
    with capture_logs() as logs:
        result = await run("todo", action="update", items=[{"text": "plan"}])
    assert result.content.startswith("[ ] 1. plan")
    assert [entry["event"] for entry in logs] == ["todo.unreadable"]
