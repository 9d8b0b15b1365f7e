"""Search over a person's own conversations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.messages import Message
from agent.store import Address, Split
from agent.tool import ToolContext
from agent.tools.session_search import session_search
from tests.support.tool_conversation import Run, context_of

NOON = 1_750_000_000.0
"""2025-06-15 15:06:40 UTC"""


async def test_a_hit_says_when_who_and_where(ctx: ToolContext, run: Run) -> None:
    """Date, role, conversation and the words found; other conversations of the person are searched too."""
    store = ctx.store
    other = await store.open_conversation(Address("web", "other"), person="anna")
    await store.append(other.live_session_id, [Message("user", "The ferry leaves at dawn", created_at=NOON)])
    await store.append(ctx.session_id, [Message("assistant", "No ferry today", created_at=NOON + 60)])
    blocks = (await run("session_search", query="ferry")).content.split("\n\n")
    there, here = other.id, f"{ctx.conversation_id} (this one)"
    assert sorted(blocks) == [
        f"2025-06-15 15:06 UTC · user · conversation {there}\nThe **ferry** leaves at dawn",
        f"2025-06-15 15:07 UTC · assistant · conversation {here}\nNo **ferry** today",
    ]


async def test_what_left_the_context_is_found(ctx: ToolContext, run: Run) -> None:
    """A message of an ancestor session is found once."""
    await ctx.store.append(ctx.session_id, [Message("user", "the ferry leaves at dawn")])
    await ctx.store.split(Split(ctx.session_id, "compression"))
    assert (await run("session_search", query="ferry")).content.count("**ferry**") == 1


async def test_nobody_elses_words_are_found(ctx: ToolContext, run: Run, tmp_path: Path) -> None:
    """Not another person's, and nothing at all without a person."""
    ben = await context_of(ctx.store, tmp_path, person="ben")
    await ctx.store.append(ben.session_id, [Message("user", "my secret ferry")])
    assert (
        await run("session_search", query="ferry")
    ).content == "Nothing was found. Try other or fewer words."
    with pytest.raises(ToolError, match="no known person"):
        await session_search.call(replace(ctx, person=""), {"query": "ferry"})


async def test_results_are_bounded(ctx: ToolContext, run: Run) -> None:
    """In number and in length."""
    words = [Message("user", f"ferry {'x' * 50} " * 200) for _ in range(30)]
    await ctx.store.append(ctx.session_id, words)
    content = (await run("session_search", query="ferry", limit=20)).content
    assert len(content.split("\n\n")) == 20
    assert len(content) < 12_000
    assert not (await run("session_search", query="ferry", limit=21)).ok
