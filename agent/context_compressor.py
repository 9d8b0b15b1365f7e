"""The built-in context engine: old turns become a summary, with a ledger of what must not be paraphrased.

`compress()` has four phases: prune old tool results, find the boundaries, summarise the middle, assemble. It changes
nothing it is given. What it needs to know of earlier compactions it reads from the summary among the messages, so a
restart loses nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.chat_text import last_words
from agent.compression.artifacts import changes_something, find_identifiers
from agent.compression.backoff import Backoff
from agent.compression.boundaries import PROTECT_FIRST_N, Cut, Limits, find_cut, find_head, find_tail
from agent.compression.last_run import LastRun
from agent.compression.ledger import Ledger
from agent.compression.outcome import NOTHING_TO_DO, CompressionOutcome, outcome_of, stand_in_detail
from agent.compression.pruning import prune_results
from agent.compression.stand_in import extract
from agent.compression.summariser import Summarize, SummaryTask, ask_as_fork, ask_auxiliary, first_summary
from agent.compression.summary_message import (
    Earlier,
    between,
    find_earlier,
    is_system,
    summary_text,
    with_note,
)
from agent.compression.summary_prompt import build_fork_prompt, record_of
from agent.compression.wording import find_entries, wording_of
from agent.context_engine import ContextEngine
from agent.errors import AuthenticationFailed, QuotaExhausted
from agent.messages import ChatDict
from agent.redaction import redact, redact_message, rules_that_may_fire
from agent.tokens import estimate_message_tokens, estimate_messages_tokens_rough, estimate_text_tokens
from agent.tool_pairs import align_backward, repair

_SUMMARY_RATIO = 0.20
_MIN_SUMMARY_TOKENS = 2_000
_MAX_SUMMARY_TOKENS = 12_000
_MAX_SUMMARY_SHARE = 0.05
_LEDGER_SHARE = 0.20
"""Of the threshold, between the two bounds below."""
_MIN_LEDGER_TOKENS = 320
_MAX_LEDGER_TOKENS = 3_000
_SMALLEST_MIDDLE = 150
"""Tokens. Less than this is not worth a model call."""
_STAND_IN_HOLDS = 60.0
"""Seconds until a summary that failed may be tried again on the same messages."""


@dataclass(frozen=True, slots=True)
class _History:
    """The messages of a conversation, read and measured."""

    tokens: int
    messages: list[ChatDict]
    """With tool pairs repaired."""
    sizes: list[int]
    """The system prompt counts as if it had its note, so that the boundaries do not move when it gets it."""
    earlier: Earlier | None


@dataclass(frozen=True, slots=True)
class _Summary:
    text: str
    ledger: Ledger
    is_stand_in: bool
    identifiers_lost: int


@dataclass(frozen=True, slots=True)
class _Pass:
    """What one pass through the phases came to."""

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
    _last_run: LastRun
    _awaits_usage: bool
    """A compaction was done, and no model call has shown yet whether it helped."""
    _no_gain: Backoff
    _refusals: Backoff

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

        `as_fork` first asks the model that answers people, behind the conversation itself: see `agent/fork.py`.
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
        self.summary_context_length = summary_context_length
        self._attempts = [
            *([ask_as_fork] if as_fork else ()),
            *(ask for ask in (summarize or ask_auxiliary, summarize_with_main) if ask),
        ]
        self._has_effects = has_effects
        self._clock = clock
        self._set_window(context_length)
        self._forget()

    @property
    def name(self) -> str:
        return "compressor"

    @property
    def has_stand_in(self) -> bool:
        """The last summary could not be written. A call of compress() at leisure tries to replace its stand-in."""
        return self._previous_is_stand_in

    def update_from_response(self, usage: dict[str, Any]) -> None:
        self.last_prompt_tokens = int(usage.get("prompt_tokens") or 0)
        self.last_completion_tokens = int(usage.get("completion_tokens") or 0)
        total = usage.get("total_tokens") or self.last_prompt_tokens + self.last_completion_tokens
        self.last_total_tokens = int(total)
        self._last_run.forget()
        if self._awaits_usage and self.last_prompt_tokens:
            self._awaits_usage = False
            if self.last_prompt_tokens >= self.threshold_tokens:
                self._no_gain.strike()
            else:
                self._no_gain.clear()

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return tokens >= self.threshold_tokens and not (self._no_gain.is_waiting or self._refusals.is_waiting)

    def update_model(
        self, model: str, context_length: int, base_url: str = "", api_key: str = "", provider: str = ""
    ) -> None:
        self._set_window(context_length)
        # What did not help or was refused may be different with another model.
        self._no_gain.clear()
        self._refusals.clear()

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

    def _compact(self, messages: list[ChatDict], focus_topic: str | None) -> _Pass:
        """All four phases, once."""
        history = self._read(messages)
        pruned = self._prune(history)
        cut = self._find_boundaries(history)
        for summary in (self._summarise(history, pruned, cut, focus_topic), None):
            result = self._assemble(history, cut, summary)
            tokens = estimate_messages_tokens_rough(result)
            if tokens < history.tokens:
                return _Pass(result, history.tokens, tokens, True, summary, len(cut.bounded))
            if summary is None:
                break
        return _Pass(messages, history.tokens, history.tokens, changed=False)

    # The four phases

    def _prune(self, history: _History) -> list[ChatDict]:
        """Long tool results between the head and the tail are cleared."""
        head_end, first = find_head(history.messages, history.earlier)
        return prune_results(
            history.messages, range(head_end, find_tail(history.messages, history.sizes, first, self._limits))
        )

    def _find_boundaries(self, history: _History) -> Cut:
        """Head, middle, tail; with bounded copies where the tail would not fit."""
        strikes = self._no_gain.strikes
        return find_cut(history.messages, history.sizes, history.earlier, self._limits, strikes=strikes)

    def _summarise(
        self, history: _History, pruned: Sequence[ChatDict], cut: Cut, focus_topic: str | None
    ) -> _Summary | None:
        """None where there is too little to summarise. Raises what a stand-in must not cover up."""
        replaced = sum(history.sizes[i] for i in cut.middle)
        if replaced < _SMALLEST_MIDDLE and not self._previous_is_stand_in:
            return None
        if history.earlier:
            replaced += history.sizes[history.earlier.index]
        said, sent = [history.messages[i] for i in cut.middle], [pruned[i] for i in cut.middle]
        wording = wording_of(said, sent)
        if rules := rules_that_may_fire(wording.words()):
            said = [redact_message(message, rules) for message in said]
            sent = [redact_message(message, rules) for message in sent]
            wording = wording_of(said, sent)

        earlier = self._previous_summary or ""
        until = last_words(history.messages[i] for i in reversed(cut.middle))
        text = self._generate_summary(sent, focus_topic, replaced_tokens=replaced, until=until)
        is_stand_in = text is None
        if text is None:
            if not cut.middle:
                return None
            text = extract(sent, min(self.max_summary_tokens, replaced // 2), earlier=earlier)
        found = find_entries(said, wording, self._has_effects, earlier_summary=earlier)
        everything = self._ledger.extended(found)
        in_summary = set(find_identifiers(text.split()))
        ledger = everything.bounded(self.max_ledger_tokens, in_summary=in_summary)
        lost = {*everything.named, *everything.seen} - in_summary - {*ledger.named, *ledger.seen}
        return _Summary(text, ledger, is_stand_in, len(lost))

    def _assemble(self, history: _History, cut: Cut, summary: _Summary | None) -> list[ChatDict]:
        """Head, summary, tail; without a summary, the messages as they were but for those that were bounded."""
        messages = list(history.messages)
        for index, copy in cut.bounded.items():
            messages[index] = copy
        if summary is None:
            return self._sanitize_tool_pairs(messages)
        head = messages[: cut.head_end]
        rest = [*(messages[i] for i in cut.request), *messages[cut.tail_start :]]
        text = summary_text(summary.text, summary.ledger, is_stand_in=summary.is_stand_in)
        compacted = between(head, text, rest)
        if head and is_system(head[0]):
            head[0] = with_note(head[0])
        return self._sanitize_tool_pairs([*head, *compacted, *rest])

    # Parts of the phases

    def _align_boundary_backward(self, messages: Sequence[ChatDict], index: int) -> int:
        """Past consecutive tool results to the assistant message that called them, so that no group is parted."""
        return align_backward(messages, index)

    def _sanitize_tool_pairs(self, messages: Sequence[ChatDict]) -> list[ChatDict]:
        """Without results of removed calls, and with a stub for calls whose results were removed."""
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
            window=self.summary_context_length or self.context_length,
            earlier=self._previous_summary or "",
            earlier_is_extract=self._previous_is_stand_in,
            focus=redact(focus_topic) if focus_topic else None,
        )
        if until:
            prompt = build_fork_prompt(redact(until), task.max_tokens, focus=task.focus)
            task = replace(task, fork_prompt=prompt)
        summary, self._failure = first_summary(self._attempts, task, smaller_than=most)
        return summary

    def _summary_budget(self, content_tokens: int) -> int:
        return min(max(_MIN_SUMMARY_TOKENS, int(content_tokens * _SUMMARY_RATIO)), self.max_summary_tokens)

    # State

    def _set_window(self, context_length: int) -> None:
        self.context_length = context_length
        self.threshold_tokens = round(context_length * self.threshold)
        self.tail_token_budget = round(self.threshold_tokens * self.target_ratio)
        self.max_summary_tokens = max(1, min(int(context_length * _MAX_SUMMARY_SHARE), _MAX_SUMMARY_TOKENS))
        ledger_share = int(self.threshold_tokens * _LEDGER_SHARE)
        self.max_ledger_tokens = min(max(_MIN_LEDGER_TOKENS, ledger_share), _MAX_LEDGER_TOKENS)

    @property
    def _limits(self) -> Limits:
        return Limits(
            threshold=self.threshold_tokens,
            tail_budget=self.tail_token_budget,
            reserve=self.max_summary_tokens + self.max_ledger_tokens + self.overhead_tokens,
            protect_last_n=self.protect_last_n,
        )

    def _forget(self) -> None:
        self.last_outcome = CompressionOutcome("nothing_to_do", NOTHING_TO_DO)
        self._forget_summary()
        self._failure = ""
        self._last_run = LastRun(self._clock)
        self._awaits_usage = False
        self._no_gain = Backoff(self._clock)
        self._refusals = Backoff(self._clock)

    def _forget_summary(self) -> None:
        self._previous_summary = None
        self._previous_is_stand_in = False
        self._ledger = Ledger()
        self._covered: frozenset[str] = frozenset()

    def _read(self, messages: list[ChatDict]) -> _History:
        """Measures the messages and recalls what an earlier compaction left in them."""
        whole = self._sanitize_tool_pairs(messages)
        if earlier := find_earlier(whole):
            self._previous_summary = earlier.summary
            self._previous_is_stand_in = earlier.is_stand_in
            self._ledger = earlier.ledger
        elif not self._covered.isdisjoint(_ids(whole)):
            # The last summary was not used: the turns it stood for are here again.
            self._forget_summary()
        sizes = list(map(estimate_message_tokens, whole))
        tokens = sum(sizes) if whole == messages else estimate_messages_tokens_rough(messages)
        if whole and is_system(whole[0]):
            sizes[0] = estimate_message_tokens(with_note(whole[0]))
        return _History(tokens, whole, sizes, earlier)

    def _remember(self, messages: list[ChatDict], focus_topic: str | None, done: _Pass) -> None:
        is_stand_in = done.summary is not None and done.summary.is_stand_in
        holds = _STAND_IN_HOLDS if is_stand_in else math.inf
        self._last_run.remember(messages, focus_topic, done.result, seconds=holds)
        if done.summary:
            self._previous_summary, self._ledger = done.summary.text, done.summary.ledger
            self._previous_is_stand_in = is_stand_in
            self._covered = _ids(messages) - _ids(done.result)
        if done.changed:
            self.compression_count += 1
            self._awaits_usage = True

    def _report(self, messages: list[ChatDict], done: _Pass, seconds: float) -> None:
        outcome = outcome_of(messages, done.result, done.tokens_before, done.tokens_after)
        if done.summary and done.summary.is_stand_in:
            outcome = replace(outcome, kind="stand_in", detail=stand_in_detail(self._failure))
        lost = done.summary.identifiers_lost if done.summary else 0
        self.last_outcome = replace(outcome, seconds=seconds, shortened=done.shortened, identifiers_lost=lost)


def _ids(messages: Iterable[ChatDict]) -> frozenset[str]:
    return frozenset(message["message_id"] for message in messages if "message_id" in message)
