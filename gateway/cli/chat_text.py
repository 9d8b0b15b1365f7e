"""Terminal texts for queued messages, approvals and files."""

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
"""Accepted input. “yes” is not accepted: it does not say for how long."""

CHOICES_PROMPT = "[o]nce, this [c]onversation, [d]eny "
NOT_A_CHOICE = "First type o, c or d and press Enter; the up arrow brings your text back."

_OUTCOMES: dict[Choice | Literal["expired"], str] = {
    "once": "✓ allowed once",
    "conversation": "✓ allowed in this conversation",
    "deny": "✗ denied",
    "expired": "✗ expired without an answer, not run",
}

_QUEUED = {
    "queue": "queued",
    "steer": "queued for the next step",
    "interrupt": "stops this answer",
}


def describe_waiting(queued: Queued) -> str:
    return f"↳ {_QUEUED[queued.how]}: {one_line(queued.text, 60)}"


def describe_question(asked: ApprovalAsked) -> str:
    """Show all arguments with hidden characters made visible, so that people see what they approve."""
    parts = approval_parts(asked.arguments)
    # Indented twice, so that a line cannot look like the name of another argument.
    texts = [text if len(parts) == 1 else f"{name}\n{_indented(text)}" for name, text in parts]
    return "\n".join([f"May Hermes run {one_line(asked.tool, 40)}?", *map(_indented, texts)])


def describe_outcome(choice: Choice | Literal["expired"]) -> str:
    return _OUTCOMES[choice]


def describe_file(sent: FileSent) -> str:
    """Put the path on its own line, so that it can be copied."""
    return f"⇩ {one_line(sent.caption or sent.name, 200)}\n{printable(f'{sent.workspace}/{sent.path}')}"


def _indented(text: str) -> str:
    return indent(text, "  ", lambda line: True)
