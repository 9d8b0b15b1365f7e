"""The parts of a compaction by phase: prune the middle, build the summary with its ledger, assemble the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agent.compression.boundaries import Cut, History
from agent.compression.identifiers import find_identifiers, find_phrases
from agent.compression.ledger import Ledger
from agent.compression.ledger_entries import Vocabulary, find_entries, vocabulary_of
from agent.compression.outcome import CompressionOutcome, fallback_detail, outcome_of
from agent.compression.summary_check import CheckedSummary
from agent.compression.summary_message import (
    Summary,
    foreign_text,
    is_system,
    said_by_user,
    summary_messages,
    with_note,
)
from agent.compression.truncate import prune_results
from agent.messages import ChatDict, last_words
from agent.redaction import redact_message, rules_that_may_fire

SMALLEST_MIDDLE = 150
"""Tokens. A smaller middle is not worth a model call."""


@dataclass(frozen=True, slots=True)
class Middle:
    """The turns that a summary replaces, without secrets."""

    said: Sequence[ChatDict]
    pruned: Sequence[ChatDict]
    vocabulary: Vocabulary
    ledger: Ledger
    """The previous ledger, extended by the ledgers of other engines' summaries."""
    user_words: Sequence[str]
    """The user's messages and instructions: a quote in the summary must be among them."""
    last_words: str
    tokens: int
    """Tokens of the turns and of the previous summary."""


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The messages before and after a compaction. `after` is the same list as `before` if nothing was gained."""

    before: list[ChatDict]
    after: list[ChatDict]
    tokens_before: int
    tokens_after: int
    summary: Summary | None = None
    shortened: int = 0

    def outcome(self, failure: str, seconds: float) -> CompressionOutcome:
        """Describe the result. `failure` is the reason why no model could write a summary."""
        outcome = outcome_of(self.before, self.after, self.tokens_before, self.tokens_after)
        if self.summary and self.summary.is_fallback:
            outcome = replace(outcome, kind="stand_in", detail=fallback_detail(failure))
        lost = self.summary.identifiers_lost if self.summary else 0
        return replace(outcome, seconds=seconds, shortened=self.shortened, identifiers_lost=lost)


def prune_middle(history: History, cut: Cut, previous: Summary) -> Middle | None:
    """Return the turns to summarise, pruned and redacted; None if they are too few.

    A previous extract is always worth another attempt at a summary.
    """
    tokens = sum(history.sizes[i] for i in cut.middle)
    if tokens < SMALLEST_MIDDLE and not previous.is_fallback:
        return None
    if history.earlier:
        tokens += history.sizes[history.earlier.index]
    ledger, said = previous.ledger, [history.messages[i] for i in cut.middle]
    pruned = prune_results(said)
    for place, index in enumerate(cut.middle):
        if index in history.foreign:
            said[place], foreign_ledger = foreign_text(history.messages[index])
            pruned[place], ledger = said[place], ledger.extended(foreign_ledger)
    vocabulary = vocabulary_of(said, pruned)
    if rules := rules_that_may_fire(vocabulary.words()):
        said = [redact_message(message, rules) for message in said]
        pruned = [redact_message(message, rules) for message in pruned]
        vocabulary = vocabulary_of(said, pruned)
    until = last_words(history.messages[i] for i in reversed(cut.middle))
    user_words = [*said_by_user(history.messages, history.earlier), *ledger.instructions]
    return Middle(said, pruned, vocabulary, ledger, user_words, until, tokens)


def add_ledger(
    checked: CheckedSummary,
    middle: Middle,
    previous: Summary,
    *,
    max_tokens: int,
    is_fallback: bool,
) -> Summary:
    """Return the checked text with a ledger of at most `max_tokens`."""
    found = find_entries(middle.said, middle.vocabulary, earlier=middle.ledger, earlier_summary=previous.text)
    everything = middle.ledger.extended(found, just_said=True)
    in_summary = {*find_identifiers(checked.text.split()), *find_phrases([checked.text])}
    ledger = everything.bounded(max_tokens, in_summary=in_summary)
    lost = {*everything.named, *everything.seen} - in_summary - {*ledger.named, *ledger.seen}
    return Summary(checked.text, ledger, is_fallback, checked.quotes, len(lost))


def assemble(
    history: History, cut: Cut, summary: Summary | None, copies: Mapping[int, ChatDict]
) -> list[ChatDict]:
    """Join head, summary and tail; without a summary, return all messages. Truncated copies replace their originals."""
    messages = [copies.get(index, message) for index, message in enumerate(history.messages)]
    if summary is None:
        return messages
    head = messages[: cut.head_end]
    rest = [*(messages[i] for i in cut.before_tail), *messages[cut.tail_start :]]
    written = summary_messages(head, summary, rest)
    if head and is_system(head[0]):
        head[0] = with_note(head[0])
    return [*head, *written, *rest]
