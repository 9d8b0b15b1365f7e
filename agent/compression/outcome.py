"""The outcome of a compaction, for the person and for the record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agent.messages import ChatDict

OutcomeKind = Literal["ok", "stand_in", "nothing_to_do", "failed"]

NOTHING_TO_DO = "There is nothing to compress yet: the newest messages always stay."


@dataclass(frozen=True, slots=True)
class CompressionOutcome:
    """`ok`: smaller now. `stand_in`: smaller, but no summary could be written. `failed`: nothing was changed."""

    kind: OutcomeKind
    detail: str
    """A sentence for the person."""
    seconds: float = 0.0
    messages_before: int = 0
    messages_after: int = 0
    tokens_before: int = 0
    """Estimates."""
    tokens_after: int = 0
    shortened: int = 0
    """Messages that stay in a truncated copy. The store keeps them whole."""
    identifiers_lost: int = 0
    """Identifiers that neither the summary nor the ledger had room for."""

    def in_numbers(self) -> str:
        return in_numbers(self.messages_before, self.messages_after, self.tokens_before, self.tokens_after)


def in_numbers(messages_before: int, messages_after: int, tokens_before: int, tokens_after: int) -> str:
    """Return `45 -> 25 messages, ~95K -> ~45K tokens`."""
    messages = f"{messages_before} -> {messages_after} messages"
    return f"{messages}, {_rounded(tokens_before)} -> {_rounded(tokens_after)} tokens"


def outcome_of(
    before: Sequence[ChatDict], after: Sequence[ChatDict], tokens_before: int, tokens_after: int
) -> CompressionOutcome:
    """Return `ok`, or `nothing_to_do` if the list is the same."""
    kind: OutcomeKind = "nothing_to_do" if after is before else "ok"
    outcome = CompressionOutcome(
        kind, NOTHING_TO_DO, 0.0, len(before), len(after), tokens_before, tokens_after
    )
    return outcome if after is before else replace(outcome, detail=f"Compacted: {outcome.in_numbers()}.")


def fallback_detail(reason: str) -> str:
    return (
        f"No summary could be written ({reason.rstrip('.')}), so an extract of the older messages takes its place. "
        "Hermes tries again later; nothing is lost."
    )


def _rounded(tokens: int) -> str:
    if tokens < 1_000:
        return f"~{tokens}"
    return f"~{tokens / 1_000:.0f}K" if tokens >= 10_000 else f"~{tokens / 1_000:.1f}K"
