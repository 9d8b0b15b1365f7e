from __future__ import annotations

from agent.context.branches import as_said, branch_off, first_words, last_request, why_no_request
from gateway.commands.registry import Again, Command, CommandContext


async def _run(context: CommandContext, rest: str) -> str | Again:
    left = await context.agent.open(context.conversation)
    begins = last_request(left.history)
    if begins is None:
        return f"There is nothing to try again. {why_no_request(left.history)}"
    request = await as_said(context.store, context.conversation, left.history[begins])
    await branch_off(context.store, left, left.history[:begins], system_prompt=left.session.system_prompt)
    await context.agent.discard_engine(left)
    return Again(f"Once more: “{first_words(request.content)}”", request.content, request.parts)


COMMAND = Command("retry", "ask for another answer to your last message", _run)
