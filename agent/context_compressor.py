"""The built-in context engine: it replaces old turns by a summary and a ledger of facts that must stay verbatim.

`compress()` has four phases: find the boundaries, prune the middle, summarise it, assemble the result. It does not
change its input. It reads the state of earlier compactions from the summary message, so a restart loses nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from agent.compression.backoff import Backoff, CompactionMemo, NoGain
from agent.compression.boundaries import PROTECT_FIRST_N, Cut, History, Limits, find_cut, read_history
from agent.compression.ledger import MIN_LEDGER_TOKENS, ledger_budget, max_ledger
from agent.compression.message_dates import first_of_each_day
from agent.compression.outcome import NOTHING_TO_DO, CompressionOutcome, outcome_of
from agent.compression.phases import (
    SMALLEST_MIDDLE,
    CompactionResult,
    Middle,
    add_ledger,
    assemble,
    prune_middle,
)
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
from agent.compression.summary_message import Summary, find_earlier, ids_of
from agent.context_engine import ContextEngine
from agent.errors import AuthenticationFailed, QuotaExhausted
from agent.messages import ChatDict, align_backward, repair
from agent.redaction import redact
from agent.tokens import estimate_messages_tokens_rough, estimate_text_tokens

_SUMMARY_RATIO = 0.20
_MIN_SUMMARY_TOKENS = 2_000
_MAX_SUMMARY_TOKENS = 12_000
_MAX_SUMMARY_SHARE = 0.05
_EXTRACT_REUSED_SECONDS = 60.0
"""Time until a failed summary of the same messages may be retried."""


class ContextCompressor(ContextEngine):
    """Compresses by summary. Select it with `context.engine: compressor`."""

    last_outcome: CompressionOutcome
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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`overhead_tokens` counts the tool definitions, which every request has beside the messages.

        With `as_fork`, the conversation's own model is asked first, so that the provider's cached prefix is reused.
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
        """In the order in which they are asked, each with its window if that is fixed."""
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
        self._memo.forget()
        self._no_gain.judge(self.last_prompt_tokens, self._enough)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return tokens >= self.threshold_tokens and not (self._no_gain.is_waiting or self._refusals.is_waiting)

    def should_compress_preflight(self, messages: list[ChatDict]) -> bool:
        """Return False. Only note whether the messages in use contain an extract that a summary should replace."""
        earlier = find_earlier(messages)
        self.has_fallback_summary = earlier is not None and earlier.summary.is_fallback
        return False

    def update_model(
        self, model: str, context_length: int, base_url: str = "", api_key: str = "", provider: str = ""
    ) -> None:
        self._set_window(context_length)
        # Another model may summarise better, or accept the key that this one refused.
        self._no_gain.clear()
        self._refusals.clear()
        self._memo.forget()

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:
        """Note that the last result is in use, if the session is the child of a compaction."""
        if kwargs.get("boundary_reason") == "compression":
            self._no_gain.used()
            self.has_fallback_summary = self._previous.is_fallback

    def on_session_reset(self) -> None:
        super().on_session_reset()
        self._forget()

    def compress(
        self, messages: list[ChatDict], current_tokens: int | None = None, focus_topic: str | None = None
    ) -> list[ChatDict]:
        """Return a smaller list, or the given one if nothing can be gained. `last_outcome` describes the result.

        The boundaries depend on estimates only, so the same messages are always cut alike; `current_tokens` is ignored.
        """
        if (known := self._memo.result_for(messages, focus_topic)) is not None:
            self.last_outcome = outcome_of(messages, known, 0, 0) if known is messages else self.last_outcome
            return known
        began = self._clock()
        try:
            history = self._read(messages)
            limits = Limits(
                window=self.context_length,
                threshold=self._enough,
                tail_budget=self.tail_token_budget,
                reserve=self.max_summary_tokens + MIN_LEDGER_TOKENS + self.overhead_tokens,
                least_reserve=SMALLEST_MIDDLE + self.overhead_tokens,
                protect_last_n=self.protect_last_n,
            )
            cut = find_cut(history, limits, self._align_boundary_backward, strikes=self._no_gain.strikes)
            middle = prune_middle(history, cut, self._previous)
            summary = self._summarise(middle, cut, focus_topic) if middle else None
            result = self._assemble(messages, history, cut, summary)
        except (AuthenticationFailed, QuotaExhausted) as refusal:
            self._refusals.strike()
            self.last_outcome = CompressionOutcome("failed", str(refusal), self._clock() - began)
            return messages
        self._remember(result, focus_topic)
        self.last_outcome = result.outcome(self._failure, self._clock() - began)
        return result.after

    # The phases

    def _read(self, messages: list[ChatDict]) -> History:
        """Measure the messages, and recall the summary of an earlier compaction in them."""
        history = read_history(messages, self._sanitize_tool_pairs(messages))
        if history.earlier:
            self._previous = history.earlier.summary
        elif not self._covered.isdisjoint(ids_of(history.messages)):
            # The last summary was not used: the turns that it replaced are still here.
            self._forget_summary()
        return history

    def _summarise(self, middle: Middle, cut: Cut, focus_topic: str | None) -> Summary | None:
        """Summarise the middle, or extract from it if no model can; None if the middle is empty.

        Raises AuthenticationFailed and QuotaExhausted: an extract would hide what the user has to fix.
        """
        previous = self._previous
        text = self._generate_summary(
            middle.pruned, focus_topic, replaced_tokens=middle.tokens, until=middle.last_words
        )
        checked = check_summary(text or "", [*middle.user_words, *previous.quotes])
        if not (checked.text or middle.said):
            return None
        if is_fallback := not checked.text:
            self._failure = self._failure or "it held nothing that could be used"
            max_tokens = min(self.max_summary_tokens, middle.tokens // 2)
            text = extract(middle.pruned, max_tokens, earlier=previous.text)
            checked = extract_as_checked(text, previous.quotes)
        room = self._enough - self.overhead_tokens - estimate_text_tokens(checked.text)
        budget = ledger_budget(room, cut.tokens, cut.least_tokens, self.max_ledger_tokens)
        return add_ledger(checked, middle, previous, max_tokens=budget, is_fallback=is_fallback)

    def _assemble(
        self, messages: list[ChatDict], history: History, cut: Cut, summary: Summary | None
    ) -> CompactionResult:
        """Truncate as little as the limit allows. Leave out a summary that makes the messages no smaller."""
        limit = (self._enough >> self._no_gain.strikes) - self.overhead_tokens
        for used in (summary, None) if summary else (None,):
            for copies in cut.stages:
                result = self._sanitize_tool_pairs(assemble(history, cut, used, copies))
                if (tokens := estimate_messages_tokens_rough(result)) < limit:
                    break
            if tokens < history.tokens:
                shortened = len(copies.keys() - (cut.middle if used else ()))
                return CompactionResult(messages, result, history.tokens, tokens, used, shortened)
        return CompactionResult(messages, messages, history.tokens, history.tokens)

    # Parts of the phases, named by the specification

    def _align_boundary_backward(self, messages: Sequence[ChatDict], index: int) -> int:
        """Move a boundary back from tool results to the assistant message that called them."""
        return align_backward(messages, index)

    def _sanitize_tool_pairs(self, messages: Sequence[ChatDict]) -> list[ChatDict]:
        """Drop tool results without a call, and add a stub result to calls without one."""
        return repair(messages)

    def _generate_summary(
        self,
        turns: Sequence[ChatDict],
        focus_topic: str | None = None,
        *,
        replaced_tokens: int | None = None,
        until: str = "",
    ) -> str | None:
        """Summarise these turns and the previous summary; None if no model can."""
        smaller_than = estimate_messages_tokens_rough(turns) if replaced_tokens is None else replaced_tokens
        blocks = record_of(turns)
        content_share = int(estimate_text_tokens("\n".join(blocks)) * _SUMMARY_RATIO)
        task = SummaryTask(
            blocks=blocks,
            max_tokens=min(max(_MIN_SUMMARY_TOKENS, content_share), self.max_summary_tokens),
            earlier=self._previous_summary or "",
            earlier_is_extract=self._previous.is_fallback,
            focus=redact(focus_topic) if focus_topic else None,
        )
        if until:
            days = first_of_each_day(turns)
            prompt = build_fork_prompt(redact(until), task.max_tokens, focus=task.focus, days=days)
            task = replace(task, fork_prompt=prompt)
        attempts = [
            (ask, window or window_for(ask) or self.context_length) for ask, window in self._summarisers
        ]
        summary, self._failure = first_summary(attempts, task, smaller_than=smaller_than)
        return summary

    # State

    @property
    def _previous_summary(self) -> str | None:
        return self._previous.text or None

    def _set_window(self, context_length: int) -> None:
        self.context_length = context_length
        self.threshold_tokens = round(context_length * self.threshold)
        self.tail_token_budget = round(self.threshold_tokens * self.target_ratio)
        self.max_summary_tokens = max(1, min(int(context_length * _MAX_SUMMARY_SHARE), _MAX_SUMMARY_TOKENS))
        self.max_ledger_tokens = max_ledger(self.threshold_tokens)

    @property
    def _enough(self) -> int:
        """Tokens to get below: the threshold, or half the window for a threshold of 0.0."""
        return self.threshold_tokens or self.context_length // 2

    def _forget(self) -> None:
        self.last_outcome = CompressionOutcome("nothing_to_do", NOTHING_TO_DO)
        self._forget_summary()
        self.has_fallback_summary, self._failure = False, ""
        self._memo = CompactionMemo(self._clock)
        self._no_gain = NoGain(self._clock)
        self._refusals = Backoff(self._clock)

    def _forget_summary(self) -> None:
        self._previous = Summary()
        self._covered: frozenset[str] = frozenset()
        """Ids of the messages that the last summary replaced."""

    def _remember(self, result: CompactionResult, focus_topic: str | None) -> None:
        summary = result.summary
        seconds = _EXTRACT_REUSED_SECONDS if summary and summary.is_fallback else math.inf
        self._memo.remember(result.before, focus_topic, result.after, seconds=seconds)
        if summary:
            self._refusals.clear()
            self._previous, self._covered = summary, ids_of(result.before) - ids_of(result.after)
        if result.after is not result.before:
            self.compression_count += 1
            self._no_gain.compacted()
