"""Session hygiene: the safety net before the agent sees a message.

A session that escaped the agent's own compressor, or grew between two turns, is compacted when it fills 85 % of the
window. The threshold is fixed and lies above the compressor's on purpose: at the same height every turn of a long
conversation would begin with a compaction.

Hygiene leaves a session alone where it cannot help: the messages are too small a part of the prompt, or the last
compaction left the window nearly full, and it is too early to try again.
"""

from __future__ import annotations

from agent.context.child_session import LiveContext
from agent.context.compaction_pace import NEARLY_FULL
from agent.context.prompt_size import fixed_tokens, last_prompt_tokens
from agent.events import Notice, TurnEvent
from agent.loop import Agent

HYGIENE_THRESHOLD = NEARLY_FULL
MIN_MESSAGES = 4
_SMALLEST_GAIN = 0.10
"""The share of the window that the messages must fill at least: no more than that can be gained."""


async def keep_in_bounds(agent: Agent, live: LiveContext) -> list[TurnEvent]:
    """Compacts the live session if it must; the events tell what was done."""
    if not agent.keeper.enabled or len(live.history) < MIN_MESSAGES:
        return []
    tokens, window = last_prompt_tokens(live), (await agent.models.in_use(live.conversation)).context_length
    if tokens < HYGIENE_THRESHOLD * window:
        return []
    pace, fixed = agent.keeper.compactor.pace_of(live), fixed_tokens(live)
    if tokens - fixed < _SMALLEST_GAIN * window:
        if pace.has_advised:
            return []
        pace.has_advised = True
        return [Notice(_too_many_tools(fixed, window), for_admins=True)]
    if pace.in_vain.is_waiting:
        return []
    return await agent.keeper.compact(live, "hygiene", tokens)


def _too_many_tools(fixed: int, window: int) -> str:
    return (
        f"The tools and the system prompt alone take about {fixed:,} of the {window:,} tokens of this model's window, "
        "so little of the conversation fits. Enable fewer tools or choose a model with a larger window."
    )
