from __future__ import annotations

from gateway.commands.registry import Command, CommandContext


async def _run(context: CommandContext, rest: str) -> str:
    """Report the ids for `allowed_users`, `allowed_groups` and `admins`."""
    address = context.conversation.address
    lines = [f"Platform: {address.platform}", *_you(context.author), *_group(context.group)]
    if address.chat_id:
        thread = f", thread `{address.thread_id}`" if address.thread_id else ""
        lines.append(f"This chat: `{address.chat_id}`{thread}")
    lines.append("You are an admin." if context.is_admin else "You are not an admin.")
    return "\n".join(lines)


def _you(author: str) -> list[str]:
    """Return the id in `telegram:4711`. The owner at this machine has none."""
    service, colon, number = author.partition(":")
    return [f"Your id: `{number}` (for `allowed_users` and `admins`)"] if colon else [f"You: the {service}"]


def _group(group: str) -> list[str]:
    return [f"This group: `{group}` (for `allowed_groups`)"] if group else []


COMMAND = Command("whoami", "your id and this chat's, and whether you are an admin", _run)
