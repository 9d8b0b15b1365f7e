from __future__ import annotations

from agent.store import Fact
from gateway.commands.registry import Command, CommandContext
from gateway.commands.sessions import dated

_HOW = "\n/memory forget NUMBER deletes one of them; a session that has begun keeps it until /new."
_USAGE = "/memory lists what is remembered; /memory forget NUMBER deletes it."


async def _run(context: CommandContext, rest: str) -> str:
    facts = await context.store.facts(context.conversation.person)
    action, *numbers = rest.lower().split()[:2] or [""]
    if not action:
        return (
            "\n".join([*map(_line, range(1, len(facts) + 1), facts), _HOW])
            if facts
            else "Nothing is remembered."
        )
    if action != "forget" or not numbers or not numbers[0].isdecimal():
        return _USAGE
    index = int(numbers[0][:9]) - 1
    if not 0 <= index < len(facts):
        return f"There is no number {numbers[0][:9]}. " + _USAGE
    await context.store.forget(context.conversation.person, facts[index].id)
    return f"Forgot: “{facts[index].text}”"


def _line(number: int, fact: Fact) -> str:
    doubt = " (noted after text of others was read)" if fact.after_outside else ""
    return f"{number}. {fact.text} – {dated(fact.created_at)}{doubt}"


COMMAND = Command("memory", "what is remembered about you; forget NUMBER deletes it", _run, argument="forget")
