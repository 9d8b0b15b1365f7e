"""Session hygiene: the safety net before the agent sees a message.

A session that escaped the agent's own compressor, or grew between two turns, is compacted when it fills 85 % of the
window. The threshold is fixed and lies above the compressor's on purpose: at the same height every turn of a long
conversation would begin with a compaction.
"""

from __future__ import annotations

from agent.context_keeper import estimated_tokens
from agent.context_plan import LiveContext
from agent.events import TurnEvent
from agent.loop import Agent

HYGIENE_THRESHOLD = 0.85
MIN_MESSAGES = 4


async def keep_in_bounds(agent: Agent, live: LiveContext) -> list[TurnEvent]:
    """Compacts the live session if it must; the events tell what was done."""
    if not agent.keeper.enabled or len(live.history) < MIN_MESSAGES:
        return []
    # What the API reported for the last call; a rough estimate where nothing was reported.
    tokens = live.session.prompt_tokens or estimated_tokens(live)
    llm = await agent.models.of(live.conversation)
    if tokens < HYGIENE_THRESHOLD * llm.context_length:
        return []
    return await agent.keeper.compact(live, "hygiene", tokens)
