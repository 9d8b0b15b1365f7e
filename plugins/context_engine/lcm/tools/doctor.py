"""`lcm_doctor`: checks what is stored of this conversation."""

from __future__ import annotations

from ..formatting import pluralize
from ..integrity import CHECKS, FILE, Problem, check
from .tool import Arguments, CallContext, EngineTool, visible_conversations

MAX_CHECKED_BYTES = 256_000_000
"""SQLite reads the whole file to check it, which takes too long inside a turn."""


def doctor_report(call: CallContext) -> str:
    """Describe problems and advice, without quoting messages."""
    path = call.database.path
    whole_file = path.exists() and path.stat().st_size <= MAX_CHECKED_BYTES
    with call.database.reading() as connection:
        here = visible_conversations(connection, call, everywhere=False)
        if not here:
            return "Nothing of this conversation is stored yet, so there is nothing to check."
        problems = check(connection, next(iter(here)), file=whole_file)
    return _format_problems(problems, len(CHECKS) - (not whole_file)) + (
        "" if whole_file else f"\nNot checked: {FILE}, because it is large. `hermes doctor` does that."
    )


def _format_problems(problems: list[Problem], checks: int) -> str:
    if not problems:
        return f"All is well: {pluralize(checks, 'check')} of this conversation found nothing."
    failed = len({problem.check for problem in problems})
    lines = [f"{failed} of {pluralize(checks, 'check')} found something:"]
    lines += [f"- {problem.check}: {problem.what} {problem.advice}" for problem in problems]
    return "\n".join(lines)


TOOL = EngineTool(
    "lcm_doctor",
    (
        "Checks what is stored of this conversation: order, references, summaries, counts, search index. Use it when a "
        "tool of this kind answers strangely. It changes nothing."
    ),
    Arguments,
    lambda call, args: doctor_report(call),
)
