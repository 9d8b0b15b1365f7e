from __future__ import annotations

from collections.abc import AsyncIterator

from agent.llm import Usage
from gateway.commands.registry import Command, CommandContext
from gateway.commands.status import in_the_window
from gateway.limits import BudgetStatus, format_usd


async def _run(context: CommandContext, rest: str) -> str:
    store, conversation = context.store, context.conversation
    session = await store.session(conversation.live_session_id)
    compactions = await store.compactions(conversation.id)
    window = (await context.agent.models.in_use(conversation)).context_length
    held, in_words = await in_the_window(context, session)
    return "\n".join(
        (
            f"In the window: {in_words} of {window:,} tokens ({held / window:.0%})",
            f"This conversation: {described(await store.usage(conversation_id=conversation.id))}",
            f"Compactions: {len(compactions)}",
            *[line async for line in _today(context)],
        )
    )


async def _today(context: CommandContext) -> AsyncIterator[str]:
    """Report today's cost. Only admins see the total, and not in a group, where others read it."""
    yield f"You today: {spending(await context.budget.of_person(context.author))}"
    if context.is_admin and not context.group:
        yield f"Everybody today: {spending(await context.budget.of_everybody())}"


def described(usage: Usage) -> str:
    """Describe tokens in and out, the cached share, and the price."""
    cost = "price unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    cached = (
        f" ({usage.cache_read_tokens / usage.prompt_tokens:.0%} cached)" if usage.cache_read_tokens else ""
    )
    return f"{usage.prompt_tokens:,} tokens in{cached}, {usage.completion_tokens:,} out, {cost}"


def spending(today: BudgetStatus) -> str:
    """`$0.30 plus 2 calls of unknown price, counted as $0.12; $0.58 of $1.00 left until midnight`."""
    told = format_usd(today.reported)
    if today.unknown_calls:
        calls = "call" if today.unknown_calls == 1 else "calls"
        told += f" plus {today.unknown_calls} {calls} of unknown price"
    if today.cap is None or today.left is None:
        return f"{told}; no daily limit"
    counted = f", counted as {format_usd(today.assumed)}" if today.unknown_calls else ""
    return f"{told}{counted}; {format_usd(today.left)} of {format_usd(today.cap)} left until midnight"


COMMAND = Command("usage", "tokens and cost of this conversation, and what you spent today", _run)
