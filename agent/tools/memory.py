"""Facts about the person that outlive a session. The person is told of each.

A fact is in the system prompt of every later session, so a web page or a forwarded message must not plant one
unnoticed. Facts noted while text of others was in the conversation are labelled.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from agent.aio import keyed_lock
from agent.errors import ToolError
from agent.messages import OUTSIDE, holds_outside_text
from agent.redaction import redact
from agent.store import Fact, SessionStore
from agent.tool import ToolContext, tool

MAX_FACT_CHARS = 300
MAX_PERSON_CHARS = 4_000
"""All facts of a person stand in each new session's prompt: this bounds what they cost."""

_SUGGESTED = 5
_UNTOLD = "facts_untold"
"""State of a conversation: sentences about new facts that the person was not told yet."""
_LOOKED_AT = 400
"""Messages of a conversation whose beginning an old version summarised."""


@tool(effects=True)
async def memory(
    ctx: ToolContext,
    action: Annotated[Literal["add", "list", "forget"], Field(description="What to do.")],
    text: Annotated[str, Field(description="For `add`: one fact, in one short sentence.")] = "",
    fact_id: Annotated[str, Field(description="For `forget`: the id that `list` shows.")] = "",
) -> str:
    """Remember lasting facts about the person (preferences, names, circumstances) for later conversations.
    Not for passing matters, and never for secrets such as passwords."""
    if not ctx.person:
        raise ToolError("this conversation belongs to no known person, so facts cannot be kept.")
    if action == "list":
        return _as_text(await ctx.store.facts(ctx.person))
    if action == "forget":
        return await _forget(ctx, fact_id)
    async with keyed_lock(f"memory {ctx.person}"):
        return await _add(ctx, " ".join(text.split()))


async def _add(ctx: ToolContext, text: str) -> str:
    if not text:
        raise ToolError("`text` is empty; give the fact to remember.")
    if len(text) > MAX_FACT_CHARS:
        raise ToolError(f"a fact has at most {MAX_FACT_CHARS} characters, this one {len(text)}; shorten it.")
    if await asyncio.to_thread(redact, text) != text:
        raise ToolError("this looks like a secret, and those are not remembered; leave it out.")
    facts = await ctx.store.facts(ctx.person)
    if any(fact.text.casefold() == text.casefold() for fact in facts):
        return "That is remembered already."
    missing = sum(len(fact.text) for fact in facts) + len(text) - MAX_PERSON_CHARS
    if missing > 0:
        oldest = facts[:_SUGGESTED]
        raise ToolError(
            f"the memory is full; forget facts of {missing} characters or more first, or merge some. "
            f"The oldest are:\n{_as_text(oldest)}"
        )
    outside = await _has_read_outside_text(ctx.store, ctx.conversation_id, ctx.session_id)
    fact = await ctx.store.remember(ctx.person, text, after_outside=outside)
    await _will_tell(ctx.store, ctx.conversation_id, fact)
    return f"Remembered as {fact.id}."


async def _forget(ctx: ToolContext, fact_id: str) -> str:
    if not await ctx.store.forget(ctx.person, fact_id):
        raise ToolError(f"there is no fact `{fact_id}`; `list` shows the ids.")
    return f"Forgot {fact_id}."


def _as_text(facts: Sequence[Fact]) -> str:
    if not facts:
        return "Nothing is remembered yet."
    return "\n".join(f"{fact.id}: {fact.text}" for fact in facts)


async def _has_read_outside_text(store: SessionStore, conversation_id: str, session_id: str) -> bool:
    """Return whether text of others is in the context, or was in the messages that a summary replaced."""
    seen = await store.history(session_id)
    if any(message.kind == "summary" and OUTSIDE not in (message.state or {}) for message in seen):
        # A summary of an old version does not say what it replaced.
        seen = [*seen, *await store.transcript(conversation_id, limit=_LOOKED_AT)]
    return any(map(holds_outside_text, seen))


async def _will_tell(store: SessionStore, conversation_id: str, fact: Fact) -> None:
    """Note that the person has to be told of the fact."""
    doubt = ", noted after text of others was read" if fact.after_outside else ""
    notice = f"Remembered: “{fact.text}”{doubt}. /memory shows everything and deletes it."
    async with keyed_lock(f"{_UNTOLD} {conversation_id}"):
        untold = [*await _untold(store, conversation_id), notice]
        await store.save_state(conversation_id, _UNTOLD, json.dumps(untold))


async def to_tell(store: SessionStore, conversation_id: str) -> list[str]:
    """Return sentences about the facts remembered since the person was last told; they count as told."""
    async with keyed_lock(f"{_UNTOLD} {conversation_id}"):
        untold = await _untold(store, conversation_id)
        if untold:
            await store.save_state(conversation_id, _UNTOLD, "[]")
    return untold


async def _untold(store: SessionStore, conversation_id: str) -> list[str]:
    sentences: list[str] = json.loads(await store.load_state(conversation_id, _UNTOLD) or "[]")
    return sentences
