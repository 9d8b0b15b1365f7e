from __future__ import annotations

from agent.context.branches import branch_off, first_words, name_branch
from gateway.commands.registry import Command, CommandContext

_LONGEST_NAME = 40


async def _run(context: CommandContext, rest: str) -> str:
    left = await context.agent.open(context.conversation)
    if not left.history:
        return "There is nothing to branch off from: nothing has been said in this session yet."
    branch = await branch_off(context.store, left, left.history, system_prompt=left.session.system_prompt)
    name = first_words(rest, _LONGEST_NAME)
    if name:
        await name_branch(context.store, context.conversation, branch.session.id, name)
    await context.agent.discard_engine(left)
    return (
        f"You are in a branch now{f', “{name}”' if name else ''}, with all that was said so far. "
        f"`/resume {left.session.id}` returns to where it branched off."
    )


COMMAND = Command(
    "branch", "try something else from here; /resume goes back to this point", _run, argument="name"
)
