"""Sessions that end by themselves: after a pause, or with the day. The store keeps everything, and it is announced."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from agent.context.branches import last_step
from agent.loop import Agent
from agent.store import Conversation
from gateway.config.platforms import SessionsConfig


async def begin_anew_if_due(agent: Agent, conversation: Conversation, settings: SessionsConfig) -> str | None:
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
