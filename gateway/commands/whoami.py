from __future__ import annotations

from gateway.commands import Command, CommandContext

_GROUP = "group"


async def _run(context: CommandContext, rest: str) -> str:
    """The numbers that `allowed_users`, `allowed_groups` and `admins` want."""
    address = context.conversation.address
    lines = [f"Platform: {address.platform}", *_you(context.author), *_group(context.conversation.person)]
    if address.chat_id:
        thread = f", thread `{address.thread_id}`" if address.thread_id else ""
        lines.append(f"This chat: `{address.chat_id}`{thread}")
    lines.append("You are an admin." if context.is_admin else "You are not an admin.")
    return "\n".join(lines)


def _you(author: str) -> list[str]:
    """`telegram:4711`. The owner at this machine has no number."""
    service, colon, number = author.partition(":")
    return [f"Your id: `{number}` (for `allowed_users` and `admins`)"] if colon else [f"You: the {service}"]


def _group(person: str) -> list[str]:
    """A group's memory belongs to `discord:group:815`, or `discord:group:815:4711` where it is split per person."""
    parts = person.split(":")
    return [f"This group: `{parts[2]}` (for `allowed_groups`)"] if parts[1:2] == [_GROUP] else []


COMMAND = Command("whoami", "your id and this chat's, and whether you are an admin", _run)
