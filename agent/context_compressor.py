"""The built-in context engine: old turns become a summary, with a ledger of what must not be paraphrased.

`compress()` has four phases: find the boundaries, prune old tool results, summarise the middle, assemble. It changes
nothing it is given. What it needs to know of earlier compactions it reads from the data beside the summary among the
messages, so a restart loses nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.compression.backoff import Backoff, CompactionMemo, NoGain
from agent.compression.boundaries import PROTECT_FIRST_N, Cut, Limits, MeasuredMessages, find_cut
from agent.compression.dates import first_of_each_day
from agent.compression.identifiers import changes_something, find_identifiers, find_phrases
from agent.compression.ledger import MIN_LEDGER_TOKENS, Ledger, ledger_budget, max_ledger
from agent.compression.outcome import NOTHING_TO_DO, CompressionOutcome, fallback_detail, outcome_of
from agent.compression.prompt import build_fork_prompt, record_of
from agent.compression.summariser import (
    Summarize,
    SummaryTask,
    ask_as_fork,
    ask_auxiliary,
    extract,
    first_summary,
    window_for,
)
from agent.compression.summary_check import check_summary, extract_as_checked
from agent.compression.summary_message import (
    find_earlier,
    find_foreign,
    foreign_text,
    ids_of,
    is_system,
    said_by_user,
    summary_messages,
    with_note,
)
from agent.compression.truncate import prune_results
from agent.compression.vocabulary import find_entries, vocabulary_of
from agent.context_engine import ContextEngine
from agent.errors import AuthenticationFailed, QuotaExhausted
from agent.messages import ChatDict, align_backward, last_words, repair
from agent.redaction import redact, redact_message, rules_that_may_fire
from agent.tokens import estimate_message_tokens, estimate_messages_tokens_rough, estimate_text_tokens

_SUMMARY_RATIO = 0.20
_MIN_SUMMARY_TOKENS = 2_000
_MAX_SUMMARY_TOKENS = 12_000
_MAX_SUMMARY_SHARE = 0.05
_SMALLEST_MIDDLE = 150
"""Tokens. Less than this is not worth a model call."""
_STAND_IN_HOLDS = 60.0
"""Seconds until a summary that failed may be tried again on the same messages."""


@dataclass(frozen=True, slots=True)
class _History(MeasuredMessages):
    """The messages of a conversation, with tool pairs repaired, read and measured.

    The system prompt counts as if it had its note, so that the boundaries do not move when it gets it.
    """

    tokens: int
    """Of the messages as they were given."""


@dataclass(frozen=True, slots=True)
class _Summary:
    text: str
    ledger: Ledger
    is_stand_in: bool
    identifiers_lost: int
    quotes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _PhaseResult:
    """The result of one pass through the phases."""

    result: list[ChatDict]
    tokens_before: int
    tokens_after: int
    changed: bool
    summary: _Summary | None = None
    shortened: int = 0


class ContextCompressor(ContextEngine):
    """Select it with `context.engine: compressor`."""

    last_outcome: CompressionOutcome
    """What the last call of compress() did."""
    _previous_summary: str | None
    _quotes: tuple[str, ...]
    _failure: str

    def __init__(
        self,
        context_length: int,
        *,
        threshold: float = 0.50,
        target_ratio: float = 0.20,
        protect_last_n: int = 20,
        summarize: Summarize | None = None,
        as_fork: bool = False,
        summarize_with_main: Summarize | None = None,
        summary_context_length: int | None = None,
        overhead_tokens: int = 0,
        has_effects: Callable[[str], bool] = changes_something,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`overhead_tokens` is what goes with every request beside the messages: the tool definitions.

        `as_fork` first asks the model that answers people, behind the conversation itself: see
        `agent/llm/cached_prefix.py`.
        """
        if context_length < 1:
            raise ValueError(f"The context length must be positive, not {context_length}.")
        if not 0.0 <= threshold <= 1.0:
            raise ValueError(f"`compression.threshold` must be between 0.0 and 1.0, not {threshold}.")
        if not 0.10 <= target_ratio <= 0.80:
            raise ValueError(f"`compression.target_ratio` must be between 0.10 and 0.80, not {target_ratio}.")
        if protect_last_n < 1:
            raise ValueError(f"`compression.protect_last_n` must be at least 1, not {protect_last_n}.")
        self.threshold = threshold
        self.target_ratio = target_ratio
        self.protect_first_n = PROTECT_FIRST_N
        self.protect_last_n = protect_last_n
        self.overhead_tokens = overhead_tokens
        self._summarisers: list[tuple[Summarize, int | None]] = [
            *([(ask_as_fork, None)] if as_fork else ()),
            (summarize or ask_auxiliary, summary_context_length),
            *([(summarize_with_main, None)] if summarize_with_main else ()),
        ]
        """In the order in which they are asked, each with its window where that is fixed."""
        self._has_effects = has_effects
        self._clock = clock
        self._set_window(context_length)
        self._forget()

    @property
    def name(self) -> str:
        return "compressor"

    def update_from_response(self, usage: dict[str, Any]) -> None:
        self.last_prompt_tokens = int(usage.get("prompt_tokens") or 0)
        self.last_completion_tokens = int(usage.get("completion_tokens") or 0)
        total = usage.get("total_tokens") or self.last_prompt_tokens + self.last_completion_tokens
        self.last_total_tokens = int(total)
        self._last_run.forget()
        self._no_gain.judge(self.last_prompt_tokens, self._enough)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return tokens >= self.threshold_tokens and not (self._no_gain.is_waiting or self._refusals.is_waiting)

    def should_compress_preflight(self, messages: list[ChatDict]) -> bool:
        """Never. Notes whether the messages in use hold a stand-in; one that was not used needs no better summary."""
        earlier = find_earlier(messages)
        self.has_fallback_summary = earlier is not None and earlier.is_stand_in
        return False

    def update_model(
        self, model: str, context_length: int, base_url: str = "", api_key: str = "", provider: str = ""
    ) -> None:
        self._set_window(context_length)
        # What did not help or was refused may be different with another model.
        self._no_gain.clear()
        self._refusals.clear()
        self._last_run.forget()

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:
        """A child session means that the last result is used now."""
        if kwargs.get("boundary_reason") == "compression":
            self._no_gain.used()
            self.has_fallback_summary = self._previous_is_stand_in

    def on_session_reset(self) -> None:
        super().on_session_reset()
        self._forget()

    def compress(
        self, messages: list[ChatDict], current_tokens: int | None = None, focus_topic: str | None = None
    ) -> list[ChatDict]:
        """The very same list where nothing can be gained. `last_outcome` says what was done.

        Estimates decide where to cut, so that the same messages are always cut alike: `current_tokens` is not needed.
        """
        if (known := self._last_run.result_for(messages, focus_topic)) is not None:
            self.last_outcome = outcome_of(messages, known, 0, 0) if known is messages else self.last_outcome
            return known
        began = self._clock()
        try:
            done = self._compact(messages, focus_topic)
            # A summary settles it. Where messages were only shortened, the rest may be cut otherwise now.
            while done.changed and not done.summary:
                again = self._compact(done.result, focus_topic)
                if not again.changed:
                    break
                done = replace(
                    again, tokens_before=done.tokens_before, shortened=done.shortened + again.shortened
                )
        except (AuthenticationFailed, QuotaExhausted) as refusal:
            self._refusals.strike()
            self.last_outcome = CompressionOutcome("failed", str(refusal), self._clock() - began)
            return messages
        if done.summary:
            self._refusals.clear()
        self._remember(messages, focus_topic, done)
        self._report(messages, done, self._clock() - began)
        return done.result

    def _compact(self, messages: list[ChatDict], focus_topic: str | None) -> _PhaseResult:
        """All four phases, once."""
        history = self._read(messages)
        cut = find_cut(history, self._limits, self._align_boundary_backward, strikes=self._no_gain.strikes)
        pruned = prune_results(history.messages, cut.middle)
        for summary in (self._summarise(history, pruned, cut, focus_topic), None):
            result, shortened = self._assemble(history, cut, summary)
            tokens = estimate_messages_tokens_rough(result)
            if tokens < history.tokens:
                return _PhaseResult(result, history.tokens, tokens, True, summary, shortened)
            if summary is None:
                break
        return _PhaseResult(messages, history.tokens, history.tokens, changed=False)

    # The four phases

    def _summarise(
        self, history: _History, pruned: Sequence[ChatDict], cut: Cut, focus_topic: str | None
    ) -> _Summary | None:
        """Summarise the middle; None if it is too small.

        Raises AuthenticationFailed and QuotaExhausted, which a fallback summary must not hide.
        """
        kept, replaced = self._ledger, sum(history.sizes[i] for i in cut.middle)
        if replaced < _SMALLEST_MIDDLE and not self._previous_is_stand_in:
            return None
        if history.earlier:
            replaced += history.sizes[history.earlier.index]
        said, sent = [history.messages[i] for i in cut.middle], [pruned[i] for i in cut.middle]
        for place, index in enumerate(cut.middle):
            if index in history.foreign:
                said[place], ledger = foreign_text(history.messages[index])
                sent[place], kept = said[place], kept.extended(ledger)
        wording = vocabulary_of(said, sent)
        if rules := rules_that_may_fire(wording.words()):
            said = [redact_message(message, rules) for message in said]
            sent = [redact_message(message, rules) for message in sent]
            wording = vocabulary_of(said, sent)
        earlier = self._previous_summary or ""
        until = last_words(history.messages[i] for i in reversed(cut.middle))
        text = self._generate_summary(sent, focus_topic, replaced_tokens=replaced, until=until)
        proof = [*said_by_user(history.messages, history.earlier), *kept.instructions, *self._quotes]
        checked = check_summary(text or "", proof)
        if not (checked.text or cut.middle):
            return None
        if is_stand_in := not checked.text:
            self._failure = self._failure or "it held nothing that could be used"
            text = extract(sent, min(self.max_summary_tokens, replaced // 2), earlier=earlier)
            checked = extract_as_checked(text, self._quotes)
        text = checked.text
        found = find_entries(said, wording, self._has_effects, earlier=kept, earlier_summary=earlier)
        everything = kept.extended(found, just_said=True)
        in_summary = {*find_identifiers(text.split()), *find_phrases([text])}
        room = self._enough - self.overhead_tokens - estimate_text_tokens(text)
        budget = ledger_budget(room, cut.tokens, cut.least_tokens, self.max_ledger_tokens)
        ledger = everything.bounded(budget, in_summary=in_summary)
        lost = {*everything.named, *everything.seen} - in_summary - {*ledger.named, *ledger.seen}
        return _Summary(text, ledger, is_stand_in, len(lost), checked.quotes)

    def _assemble(self, history: _History, cut: Cut, summary: _Summary | None) -> tuple[list[ChatDict], int]:
        """Head, summary, tail; and how many messages were shortened: none, where the whole fits without."""
        most = (self._enough >> self._no_gain.strikes) - self.overhead_tokens
        for copies in cut.stages:
            result = self._put_together(history, cut, summary, copies)
            if estimate_messages_tokens_rough(result) < most:
                break
        return result, len(copies.keys() - (cut.middle if summary else ()))

    def _put_together(
        self, history: _History, cut: Cut, summary: _Summary | None, copies: Mapping[int, ChatDict]
    ) -> list[ChatDict]:
        """Join head, summary and tail; without a summary, the messages with their truncated copies."""
        messages = [copies.get(index, message) for index, message in enumerate(history.messages)]
        if summary is None:
            return self._sanitize_tool_pairs(messages)
        head = messages[: cut.head_end]
        rest = [*(messages[i] for i in cut.ahead), *messages[cut.tail_start :]]
        text, ledger, quotes = summary.text, summary.ledger, summary.quotes
        made = summary_messages(head, rest, text, ledger, quotes=quotes, is_stand_in=summary.is_stand_in)
        if head and is_system(head[0]):
            head[0] = with_note(head[0])
        return self._sanitize_tool_pairs([*head, *made, *rest])

    # Parts of the phases

    def _align_boundary_backward(self, messages: Sequence[ChatDict], index: int) -> int:
        """Past consecutive tool results to the assistant message that called them, so that no group is parted."""
        return align_backward(messages, index)

    def _sanitize_tool_pairs(self, messages: Sequence[ChatDict]) -> list[ChatDict]:
        """Drop results without a call, and add a stub result to calls without one."""
        return repair(messages)

    def _generate_summary(
        self,
        turns: Sequence[ChatDict],
        focus_topic: str | None = None,
        *,
        replaced_tokens: int | None = None,
        until: str = "",
    ) -> str | None:
        """The summary of these turns and of the previous summary; None where no model could write one."""
        most = estimate_messages_tokens_rough(turns) if replaced_tokens is None else replaced_tokens
        blocks = record_of(turns)
        task = SummaryTask(
            blocks=blocks,
            max_tokens=self._summary_budget(estimate_text_tokens("\n".join(blocks))),
            earlier=self._previous_summary or "",
            earlier_is_extract=self._previous_is_stand_in,
            focus=redact(focus_topic) if focus_topic else None,
        )
        if until:
            days = first_of_each_day(turns)
            prompt = build_fork_prompt(redact(until), task.max_tokens, focus=task.focus, days=days)
            task = replace(task, fork_prompt=prompt)
        attempts = [
            (ask, window or window_for(ask) or self.context_length) for ask, window in self._summarisers
        ]
        summary, self._failure = first_summary(attempts, task, smaller_than=most)
        return summary

    def _summary_budget(self, content_tokens: int) -> int:
        return min(max(_MIN_SUMMARY_TOKENS, int(content_tokens * _SUMMARY_RATIO)), self.max_summary_tokens)

    # State

    def _set_window(self, context_length: int) -> None:
        self.context_length = context_length
        self.threshold_tokens = round(context_length * self.threshold)
        self.tail_token_budget = round(self.threshold_tokens * self.target_ratio)
        self.max_summary_tokens = max(1, min(int(context_length * _MAX_SUMMARY_SHARE), _MAX_SUMMARY_TOKENS))
        self.max_ledger_tokens = max_ledger(self.threshold_tokens)

    @property
    def _enough(self) -> int:
        """Return the size to get below: the threshold, or half the window for a threshold of 0.0."""
        return self.threshold_tokens or self.context_length // 2

    @property
    def _limits(self) -> Limits:
        return Limits(
            window=self.context_length,
            threshold=self._enough,
            tail_budget=self.tail_token_budget,
            reserve=self.max_summary_tokens + MIN_LEDGER_TOKENS + self.overhead_tokens,
            least_reserve=_SMALLEST_MIDDLE + self.overhead_tokens,
            protect_last_n=self.protect_last_n,
        )

    def _forget(self) -> None:
        self.last_outcome = CompressionOutcome("nothing_to_do", NOTHING_TO_DO)
        self._forget_summary()
        self.has_fallback_summary, self._failure = False, ""
        self._last_run = CompactionMemo(self._clock)
        self._no_gain = NoGain(self._clock)
        self._refusals = Backoff(self._clock)

    def _forget_summary(self) -> None:
        self._previous_summary, self._previous_is_stand_in = None, False
        self._ledger, self._quotes = Ledger(), ()
        self._covered: frozenset[str] = frozenset()

    def _read(self, messages: list[ChatDict]) -> _History:
        """Measures the messages and recalls what an earlier compaction left in them."""
        whole = self._sanitize_tool_pairs(messages)
        if earlier := find_earlier(whole):
            self._previous_summary, self._previous_is_stand_in = earlier.summary, earlier.is_stand_in
            self._ledger, self._quotes = earlier.ledger, earlier.quotes
        elif not self._covered.isdisjoint(ids_of(whole)):
            # The last summary was not used: the turns it stood for are here again.
            self._forget_summary()
        sizes = list(map(estimate_message_tokens, whole))
        tokens = sum(sizes) if whole == messages else estimate_messages_tokens_rough(messages)
        if whole and is_system(whole[0]):
            sizes[0] = estimate_message_tokens(with_note(whole[0]))
        return _History(whole, sizes, earlier, find_foreign(whole, earlier), tokens)

    def _remember(self, messages: list[ChatDict], focus_topic: str | None, done: _PhaseResult) -> None:
        is_stand_in = done.summary is not None and done.summary.is_stand_in
        holds = _STAND_IN_HOLDS if is_stand_in else math.inf
        self._last_run.remember(messages, focus_topic, done.result, seconds=holds)
        if done.summary:
            self._previous_summary, self._ledger = done.summary.text, done.summary.ledger
            self._previous_is_stand_in, self._quotes = is_stand_in, done.summary.quotes
            self._covered = ids_of(messages) - ids_of(done.result)
        if done.changed:
            self.compression_count += 1
            self._no_gain.compacted()

    def _report(self, messages: list[ChatDict], done: _PhaseResult, seconds: float) -> None:
        outcome = outcome_of(messages, done.result, done.tokens_before, done.tokens_after)
        if done.summary and done.summary.is_stand_in:
            outcome = replace(outcome, kind="stand_in", detail=fallback_detail(self._failure))
        lost = done.summary.identifiers_lost if done.summary else 0
        self.last_outcome = replace(outcome, seconds=seconds, shortened=done.shortened, identifiers_lost=lost)
