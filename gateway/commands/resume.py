from __future__ import annotations

from agent.context.branches import go_to, list_branches
from agent.messages import without_notes
from gateway.commands.registry import Command, CommandContext
from gateway.commands.sessions import COMMAND as SESSIONS
from gateway.commands.sessions import LISTED, dated

# The same answer for an unknown id and for another person's id, so that it reveals nothing.
_UNKNOWN = "There is no such session in this conversation; /sessions lists them."


async def _run(context: CommandContext, rest: str) -> str:
    if not rest:
        return str(await SESSIONS.run(context, ""))
    found = await _find(context, rest)
    if len(found) != 1:
        return "More than one session matches; write more of the name or id." if found else _UNKNOWN
    left = await context.agent.open(context.conversation)
    if found == {left.session.id}:
        return "You are in that session already."
    [wanted] = found
    now = await go_to(context.store, left, wanted)
    await context.agent.discard_engine(left)
    return (
        f"Back in the session of {dated(now.session.created_at)}, with {len(without_notes(now.history))} messages. "
        f"`/resume {left.session.id}` returns to the one you left."
    )


async def _find(context: CommandContext, wanted: str) -> set[str]:
    """Find sessions by number in the list, by a branch's name, or by an id or its beginning."""
    lines = await list_branches(context.store, context.conversation, limit=LISTED)
    if wanted.isdecimal():
        return {line.session.id for line in lines[int(wanted) - 1 : int(wanted)] if int(wanted)}
    if named := {line.session.id for line in lines if line.name.casefold() == wanted.casefold()}:
        return named
    sessions = await context.store.sessions(context.conversation.id)
    ids = {session.id for session in sessions}
    return {wanted} & ids or {known for known in ids if known.startswith(wanted)}


COMMAND = Command(
    "resume",
    "continue an earlier session: its number in /sessions, its name or id",
    _run,
    argument="session",
)
