"""Session hygiene: the safety net before the agent sees a message.

A session that escaped the agent's own compressor, or grew between two turns, is compacted when it fills 85 % of the
window. The threshold is fixed and lies above the compressor's on purpose: at the same height every turn of a long
conversation would begin with a compaction.

Hygiene leaves a session alone where it cannot help: the messages are too small a part of the prompt, or the last
compaction left the window nearly full, and it is too early to try again.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from agent.context.branches import last_step
from agent.context.child_session import LiveContext
from agent.context.compaction_pace import NEARLY_FULL
from agent.context.prompt_size import fixed_tokens, last_prompt_tokens
from agent.events import Notice, TurnEvent
from agent.loop import Agent
from agent.store import Conversation
from gateway.config.schema_platforms import SessionsConfig


async def reset_if_due(agent: Agent, conversation: Conversation, settings: SessionsConfig) -> str | None:
    """Called before a message is stored. The sentence to announce, if a new session has begun."""
    if settings.reset == "none":
        return None
    live = await agent.open(conversation)
    if not live.history:
        return None
    # Who has just gone back to an old session with /resume means to go on in it.
    last = max(live.history[-1].created_at, await last_step(agent.store, conversation))
    if not is_due(settings, last, time.time()):
        return None
    await agent.reset(live)
    return f"{_why(settings)} a new session begins. What was said before stays searchable; /resume goes back."


def is_due(settings: SessionsConfig, last: float, now: float) -> bool:
    if settings.reset == "idle":
        return now - last >= settings.idle_minutes * 60
    return last < _last_day_break(now, settings.daily_hour)


def _last_day_break(now: float, hour: int) -> float:
    today = datetime.fromtimestamp(now).astimezone()
    at = today.replace(hour=hour, minute=0, second=0, microsecond=0)
    return (at if at <= today else at - timedelta(days=1)).timestamp()


def _why(settings: SessionsConfig) -> str:
    if settings.reset == "daily":
        return "It is a new day:"
    hours, minutes = divmod(settings.idle_minutes, 60)
    pause = f"{hours} h" if hours and not minutes else f"{settings.idle_minutes} min"
    return f"After a pause of more than {pause}"


HYGIENE_THRESHOLD = NEARLY_FULL
MIN_MESSAGES = 4
_SMALLEST_GAIN = 0.10
"""The share of the window that the messages must fill at least: no more than that can be gained."""


async def compact_if_oversized(agent: Agent, live: LiveContext) -> list[TurnEvent]:
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
