"""Full text search over what this person and the agent said before."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field

from agent.errors import ToolError
from agent.store import SearchHit
from agent.tool import ToolContext, tool

_SNIPPET_CHARS = 400


@tool(outside=True)
async def session_search(
    ctx: ToolContext,
    query: Annotated[str, Field(min_length=1, max_length=500, description="Words to look for.")],
    limit: Annotated[int, Field(ge=1, le=20, description="How many passages to show at most.")] = 10,
) -> str:
    """Search all conversations with this person, also what has left the current context."""
    # Without a person the store would search the conversations of all people.
    if not ctx.person:
        raise ToolError("this conversation belongs to no known person, so there is nothing to search.")
    hits = await ctx.store.search(query, person=ctx.person, limit=limit)
    if not hits:
        return "Nothing was found. Try other or fewer words."
    return "\n\n".join(_as_text(hit, ctx.conversation_id) for hit in hits)


def _as_text(hit: SearchHit, here: str) -> str:
    when = datetime.fromtimestamp(hit.message.created_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    where = hit.conversation_id + (" (this one)" if hit.conversation_id == here else "")
    snippet = hit.snippet.replace("\x02", "**").replace("\x03", "**")
    if len(snippet) > _SNIPPET_CHARS:
        snippet = snippet[:_SNIPPET_CHARS] + "…"
    return f"{when} · {hit.message.role} · conversation {where}\n{snippet}"
