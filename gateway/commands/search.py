from __future__ import annotations

from agent.context.branches import branch_through
from agent.store import SearchHit
from gateway.commands.registry import Command, CommandContext
from gateway.commands.sessions import dated

_HITS = 5
_SNIPPET = 300
_SPEAKERS = {"user": "you", "assistant": "Hermes", "tool": "a tool"}


async def _run(context: CommandContext, rest: str) -> str:
    """Search only the messages of this person or this group."""
    if not rest:
        return "Which words? For example: /search train to Lisbon"
    hits = await context.store.search(rest, person=context.conversation.person, limit=_HITS)
    if not hits:
        return f"Nothing found for “{rest[:100]}”. Try fewer or other words."
    return "\n\n".join([await _shown(context, hit) for hit in hits])


async def _shown(context: CommandContext, hit: SearchHit) -> str:
    who = _SPEAKERS[hit.message.role]
    return f"{dated(hit.message.created_at)}, {who}, {await _where(context, hit)}\n{_bold(hit.snippet)}"


async def _where(context: CommandContext, hit: SearchHit) -> str:
    conversation = context.conversation
    line = await branch_through(context.store, conversation, hit.message.session_id)
    if line is None:
        elsewhere = await context.store.conversation(hit.conversation_id)
        return f"on {elsewhere.address.platform} in `{elsewhere.id}`"
    return "in this session" if line == conversation.live_session_id else f"`/resume {line}`"


def _bold(snippet: str) -> str:
    """Make the matched words bold, and escape asterisks of the text."""
    text = snippet if len(snippet) <= _SNIPPET else snippet[: _SNIPPET - 1] + "…"
    if text.count("\x02") > text.count("\x03"):
        text += "\x03"
    return text.replace("*", "\\*").replace("\x02", "**").replace("\x03", "**")


COMMAND = Command("search", "find what was said, also in earlier sessions", _run, argument="words")
