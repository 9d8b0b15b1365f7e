from __future__ import annotations

from agent.context.branches import branch_off, first_words, last_request, why_no_request
from gateway.commands.registry import Command, CommandContext


async def _run(context: CommandContext, rest: str) -> str:
    left = await context.agent.open(context.conversation)
    begins = last_request(left.history)
    if begins is None:
        return f"There is nothing to undo. {why_no_request(left.history)}"
    await branch_off(context.store, left, left.history[:begins], system_prompt=left.session.system_prompt)
    await context.agent.discard_engine(left)
    return (
        f"Taken out: “{first_words(left.history[begins].content)}” and the answer. "
        f"/undo removes the exchange before it; `/resume {left.session.id}` restores this one."
    )


COMMAND = Command("undo", "take your last message and its answer out of the context", _run)
