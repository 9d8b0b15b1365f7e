"""What the terminal says about messages that wait, calls that need a decision, and files."""

from __future__ import annotations

from textwrap import indent
from typing import Literal

from agent.events import ApprovalAsked, FileSent, Queued
from agent.tool import Choice
from gateway.cli.output import one_line, printable
from gateway.core.approvals import approval_parts

CHOICES: dict[str, Choice] = {
    "o": "once",
    "once": "once",
    "c": "conversation",
    "conversation": "conversation",
    "d": "deny",
    "deny": "deny",
}
"""What can be typed. A mere “yes” does not say for how long."""

CHOICES_PROMPT = "[o]nce, this [c]onversation, [d]eny "
NOT_A_CHOICE = "Type o, c or d and press Enter first; the up arrow brings back what you wrote."

_OUTCOMES: dict[Choice | Literal["expired"], str] = {
    "once": "✓ allowed once",
    "conversation": "✓ allowed in this conversation",
    "deny": "✗ denied",
    "expired": "✗ not answered, so not run",
}

_WAITS = {
    "queue": "waits for its turn",
    "steer": "waits for the next step",
    "interrupt": "ends this answer",
}


def describe_waiting(queued: Queued) -> str:
    return f"↳ {_WAITS[queued.how]}: {one_line(queued.text, 60)}"


def describe_question(asked: ApprovalAsked) -> str:
    """The whole command, with everything visible that could hide: what is approved is what is seen."""
    parts = approval_parts(asked.arguments)
    # The deeper a line stands in, the less it can be taken for the name of another argument.
    texts = [text if len(parts) == 1 else f"{name}\n{_indented(text)}" for name, text in parts]
    return "\n".join([f"May Hermes run {one_line(asked.tool, 40)}?", *map(_indented, texts)])


def describe_outcome(choice: Choice | Literal["expired"]) -> str:
    return _OUTCOMES[choice]


def describe_file(sent: FileSent) -> str:
    """The place on a line of its own, so that it can be copied."""
    return f"⇩ {one_line(sent.caption or sent.name, 200)}\n{printable(f'{sent.workspace}/{sent.path}')}"


def _indented(text: str) -> str:
    return indent(text, "  ", lambda line: True)
