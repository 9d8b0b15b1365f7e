"""Session hygiene: the safety net before the agent sees a message.

A session that escaped the agent's own compressor, or grew between two turns, is compacted when it fills 85 % of the
window. The threshold is fixed and lies above the compressor's on purpose: at the same height every turn of a long
conversation would begin with a compaction.
"""

from __future__ import annotations

from agent.events import TurnEvent
from agent.loop import Agent
from agent.messages import Message, as_chat
from agent.store import Conversation, Session
from agent.tokens import estimate_messages_tokens_rough

HYGIENE_THRESHOLD = 0.85
MIN_MESSAGES = 4


async def keep_in_bounds(agent: Agent, conversation: Conversation) -> list[TurnEvent]:
    """Compacts the live session if it must; the events tell what was done."""
    session = await agent.store.session(conversation.live_session_id)
    limit = HYGIENE_THRESHOLD * agent.llm.context_length
    if not agent.keeper.enabled or (session.prompt_tokens is not None and session.prompt_tokens < limit):
        return []
    live = await agent.open(conversation)
    if len(live.history) < MIN_MESSAGES or tokens_in(live.session, live.history) < limit:
        return []
    return await agent.keeper.compact(live, "hygiene", live.session.prompt_tokens)


def tokens_in(session: Session, history: list[Message]) -> int:
    """What the API reported for the last call; a rough estimate where nothing was reported."""
    if session.prompt_tokens is not None:
        return session.prompt_tokens
    system = {"role": "system", "content": session.system_prompt or ""}
    return estimate_messages_tokens_rough([system, *map(as_chat, history)])
