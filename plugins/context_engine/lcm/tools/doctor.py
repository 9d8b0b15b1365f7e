"""`lcm_doctor`: whether what is stored of this conversation is whole."""

from __future__ import annotations

from ..integrity import CHECKS, FILE, Problem, check
from ..stats import counted
from .context import Place, conversations_in_reach
from .tool import Arguments, EngineTool

LARGE_FILE = 256_000_000
"""Bytes. SQLite reads all of a file to check it, and nobody should wait for that inside a turn."""


def run(place: Place, args: Arguments) -> str:
    return report(place)


def report(place: Place) -> str:
    """In words that a person can act on, without anything that was said."""
    path = place.database.path
    whole_file = path.exists() and path.stat().st_size <= LARGE_FILE
    with place.database.reading() as connection:
        here = conversations_in_reach(connection, place, everywhere=False)
        if not here:
            return "Nothing of this conversation is stored yet, so there is nothing to check."
        problems = check(connection, next(iter(here)), file=whole_file)
    return told(problems, len(CHECKS) - (not whole_file)) + (
        "" if whole_file else f"\nNot checked: {FILE}, because it is large. `hermes doctor` does that."
    )


def told(problems: list[Problem], checks: int) -> str:
    if not problems:
        return f"All is well: {counted(checks, 'check')} of this conversation found nothing."
    failed = len({problem.check for problem in problems})
    lines = [f"{failed} of {counted(checks, 'check')} found something:"]
    lines += [f"- {problem.check}: {problem.what} {problem.advice}" for problem in problems]
    return "\n".join(lines)


TOOL = EngineTool(
    "lcm_doctor",
    (
        "Checks what is stored of this conversation: order, references, summaries, counts, search index. Use it when a "
        "tool of this kind answers strangely. It changes nothing."
    ),
    Arguments,
    run,
)
