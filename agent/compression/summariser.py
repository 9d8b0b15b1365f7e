"""Asks a model for a summary: the whole middle, in as many pieces as its window needs, each updating the last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from agent.aio import ForeignError, foreign_code
from agent.auxiliary_client import CACHED_PREFIX_TASK, call_llm, context_length_of
from agent.compression.prompt import build_prompt, pieces_of, record_of
from agent.compression.summary_check import without_own_marks
from agent.compression.truncate import fair_cap
from agent.errors import (
    AuthenticationFailed,
    ContextOverflow,
    EmptyAnswer,
    HermesError,
    QuotaExhausted,
    StreamCut,
)
from agent.messages import ChatDict
from agent.redaction import redact
from agent.tokens import cut_to_tokens, estimate_text_tokens

log = structlog.get_logger(__name__)

Summarize = Callable[[str, int], str | None]
"""Takes a prompt and the maximum tokens of the answer. On failure it raises or returns nothing."""

_USABLE_WINDOW = 0.7
"""Token counts here are estimates; this much of the window is safe to fill."""
_SMALLEST_PIECE = 256
_MAX_PIECES = 16
_ANSWER_SHARE = 0.125
_MAX_HALVINGS = 3


@dataclass(frozen=True, slots=True)
class SummaryTask:
    """The turns to summarise, and the limits of the summary."""

    blocks: Sequence[str]
    """The turns, from `record_of`, free of secrets."""
    max_tokens: int
    earlier: str = ""
    earlier_is_extract: bool = False
    focus: str | None = None
    fork_prompt: str = ""


class SummaryFailed(Exception):
    """A summariser raised an error of its own, or its window is too small for the conversation."""


def ask_auxiliary(prompt: str, max_tokens: int) -> str | None:
    """Ask the configured model for `auxiliary.compression`."""
    return _ask(prompt, max_tokens, None)


def ask_main(prompt: str, max_tokens: int) -> str | None:
    """Ask the conversation's model, for when the auxiliary model fails."""
    return _ask(prompt, max_tokens, "main")


def ask_as_fork(prompt: str, max_tokens: int) -> str | None:
    """Ask the conversation's model with the conversation as prefix, so that the provider's cache is reused."""
    return _ask(prompt, max_tokens, "main", task=CACHED_PREFIX_TASK)


def _ask(prompt: str, max_tokens: int, model: str | None, task: str = "compression") -> str | None:
    messages = [{"role": "user", "content": prompt}]
    response: Any = call_llm(task=task, messages=messages, max_tokens=max_tokens, model=model)
    choice = response.choices[0]
    content: str | None = choice.message.content
    if choice.finish_reason == "length":
        raise StreamCut(f"The summary did not fit {max_tokens} tokens.", partial_text=content or "")
    return content


def window_for(ask: Summarize) -> int | None:
    """Return the window of one of our own summarisers, corrected by what the model refused before."""
    if ask is ask_auxiliary:
        return context_length_of("compression")
    return context_length_of("compression", "main") if ask is ask_main else None


def first_summary(
    attempts: Iterable[tuple[Summarize, int]], task: SummaryTask, *, smaller_than: int
) -> tuple[str | None, str]:
    """Return the first good summary, or None and the reason of the last failure. Each attempt has its model's window.

    Raises AuthenticationFailed and QuotaExhausted, because the user has to fix these.
    """
    reason = "no model is configured to write it"
    for ask, window in attempts:
        try:
            summary = write_summary(ask, task, window)
        except (AuthenticationFailed, QuotaExhausted):
            raise
        except (HermesError, SummaryFailed) as failure:
            reason = str(failure) or type(failure).__name__
        else:
            if estimate_text_tokens(summary) < smaller_than:
                return summary, ""
            reason = "the summary was larger than what it was to replace"
        log.warning("compression.summary_failed", reason=reason)
    return None, reason


def write_summary(ask: Summarize, task: SummaryTask, window: int) -> str:
    """Return a summary without secrets. Raises a HermesError of the model, EmptyAnswer or SummaryFailed."""
    if ask is ask_as_fork:
        if not task.fork_prompt:
            raise EmptyAnswer("There is no user message to append the summary prompt to.")
        return _answer(ask, task.fork_prompt, task.max_tokens)
    for _ in range(_MAX_HALVINGS):
        try:
            return _roll(ask, task, window)
        except ContextOverflow as overflow:
            window = min(window // 2, overflow.limit or window)
    return _roll(ask, task, window)


def _roll(ask: Summarize, task: SummaryTask, window: int) -> str:
    """Summarise piece by piece. Raises SummaryFailed before the first call if that takes too many."""
    max_tokens = min(task.max_tokens, int(window * _ANSWER_SHARE))
    frame = estimate_text_tokens(build_prompt("-", max_tokens, focus=task.focus))
    earlier = max(estimate_text_tokens(task.earlier), max_tokens)
    room = int(window * _USABLE_WINDOW) - frame - earlier - max_tokens
    pieces = pieces_of(task.blocks, room) if room >= _SMALLEST_PIECE else []
    if not 0 < len(pieces) <= _MAX_PIECES:
        raise SummaryFailed(f"a window of {window:,} tokens is too small to summarise this conversation")
    summary, is_extract = task.earlier, task.earlier_is_extract
    for piece in pieces:
        prompt = build_prompt(
            piece, max_tokens, earlier=summary, earlier_is_extract=is_extract, focus=task.focus
        )
        summary = _answer(ask, prompt, max_tokens)
        is_extract = False
    return summary


def _answer(ask: Summarize, prompt: str, max_tokens: int) -> str:
    try:
        with foreign_code(HermesError):  # engine authors may pass in `ask`
            answer = ask(prompt, max_tokens)
    except ForeignError as failure:
        raise SummaryFailed(str(failure.error) or str(failure)) from failure.error
    if not isinstance(answer, str | None):
        raise SummaryFailed(f"the summariser returned a {type(answer).__name__} instead of a text")
    summary = redact((answer or "").strip())
    if not summary:
        raise EmptyAnswer("It was asked for a summary.")
    return summary


_MIN_MESSAGE_TOKENS = 16
_EARLIER_SHARE = 0.5


def extract(messages: Sequence[ChatDict], tokens: int, *, earlier: str = "") -> str:
    """Return the earlier summary and the beginning of each message, in about `tokens`. The oldest may be left out."""
    earlier_part = _shortened(earlier, int(tokens * _EARLIER_SHARE))
    room = max(0, tokens - estimate_text_tokens(earlier_part))
    blocks = record_of(messages)
    shown = blocks[max(0, len(blocks) - room // _MIN_MESSAGE_TOKENS) :]
    sizes = [estimate_text_tokens(block) for block in shown]
    cap = fair_cap(sizes, room, _MIN_MESSAGE_TOKENS)
    lines = [_shortened(block, cap) for block in shown]
    if len(blocks) > len(shown):
        lines.insert(0, f"[{len(blocks) - len(shown)} older messages are not shown; the store has them]")
    return without_own_marks("\n".join(filter(None, (earlier_part, *lines))), labels=True)


def _shortened(text: str, tokens: int) -> str:
    if estimate_text_tokens(text) <= tokens:
        return text
    return cut_to_tokens(text, max(0, tokens - 1)) + " …"
