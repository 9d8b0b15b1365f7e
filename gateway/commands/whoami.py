from __future__ import annotations

from gateway.commands.registry import Command, CommandContext


async def _run(context: CommandContext, rest: str) -> str:
    """Report the ids for `allowed_users`, `allowed_groups` and `admins`."""
    address = context.conversation.address
    # `telegram:4711`; the owner at this machine has no id.
    service, colon, number = context.author.partition(":")
    you = f"Your id: `{number}` (for `allowed_users` and `admins`)" if colon else f"You: the {service}"
    lines = [f"Platform: {address.platform}", you]
    if context.group:
        lines.append(f"This group: `{context.group}` (for `allowed_groups`)")
    if address.chat_id:
        thread = f", thread `{address.thread_id}`" if address.thread_id else ""
        lines.append(f"This chat: `{address.chat_id}`{thread}")
    lines.append("You are an admin." if context.is_admin else "You are not an admin.")
    return "\n".join(lines)


COMMAND = Command("whoami", "your id and this chat's, and whether you are an admin", _run)
