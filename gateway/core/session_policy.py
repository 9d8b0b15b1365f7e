"""Policies that run before a turn: automatic session resets, and compaction of an oversized session (hygiene).

Hygiene compacts a session that fills 85 % of the window, because it escaped the agent's own compressor or grew between
two turns. The threshold is fixed and above the compressor's: at the same threshold, every turn of a long conversation
would begin with a compaction. Hygiene does nothing where it cannot help: if the messages are too small a part of the
prompt, or if the last compaction left the window nearly full and it is too early to try again.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from agent.context.branches import last_step
from agent.context.compaction_pace import NEARLY_FULL
from agent.context.live import LiveContext, fixed_tokens, last_prompt_tokens
from agent.events import Notice, TurnEvent
from agent.loop import Agent
from agent.store import Conversation
from gateway.config.schema import SessionsConfig


async def reset_if_due(agent: Agent, conversation: Conversation, settings: SessionsConfig) -> str | None:
    """Begin a new session if the configuration asks for it, and return the sentence that announces it. Called before
    the message is stored."""
    if settings.reset == "none":
        return None
    live = await agent.open(conversation)
    if not live.history:
        return None
    # A person who has just gone back to an old session with /resume wants to continue it.
    last = max(live.history[-1].created_at, await last_step(agent.store, conversation))
    if not is_due(settings, last, time.time()):
        return None
    await agent.reset(live)
    return (
        f"{_reason(settings)} a new session begins. The earlier messages stay searchable; /resume goes back."
    )


def is_due(settings: SessionsConfig, last: float, now: float) -> bool:
    if settings.reset == "idle":
        return now - last >= settings.idle_minutes * 60
    return last < _last_daily_reset(now, settings.daily_hour)


def _last_daily_reset(now: float, hour: int) -> float:
    today = datetime.fromtimestamp(now).astimezone()
    at = today.replace(hour=hour, minute=0, second=0, microsecond=0)
    return (at if at <= today else at - timedelta(days=1)).timestamp()


def _reason(settings: SessionsConfig) -> str:
    if settings.reset == "daily":
        return "It is a new day:"
    hours, minutes = divmod(settings.idle_minutes, 60)
    pause = f"{hours} h" if hours and not minutes else f"{settings.idle_minutes} min"
    return f"After a pause of more than {pause}"


HYGIENE_THRESHOLD = NEARLY_FULL
MIN_MESSAGES = 4
_MIN_GAIN = 0.10
"""The smallest share of the window that the messages must fill: a compaction cannot gain more than that."""


async def compact_if_oversized(agent: Agent, live: LiveContext) -> list[TurnEvent]:
    """Compact the live session if it fills the window, and return notices for the person."""
    if not agent.compacts_automatically or len(live.history) < MIN_MESSAGES:
        return []
    tokens, window = last_prompt_tokens(live), (await agent.models.in_use(live.conversation)).context_length
    if tokens < HYGIENE_THRESHOLD * window:
        return []
    pace, fixed = agent.compaction_pace(live), fixed_tokens(live)
    if tokens - fixed < _MIN_GAIN * window:
        if pace.has_advised:
            return []
        pace.has_advised = True
        return [Notice(_large_prompt_advice(fixed, window), for_admins=True)]
    if pace.in_vain.is_waiting:
        return []
    return await agent.compact_oversized(live, tokens)


def _large_prompt_advice(fixed: int, window: int) -> str:
    return (
        f"The tools and the system prompt alone take about {fixed:,} of the {window:,} tokens of this model's window, "
        "so little of the conversation fits. Enable fewer tools or choose a model with a larger window."
    )
