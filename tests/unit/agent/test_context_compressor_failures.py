"""Failed summaries lose nothing, and compactions that do not help are not repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agent.context_compressor import ContextCompressor
from agent.errors import (
    AuthenticationFailed,
    ContextOverflow,
    ModelError,
    ModelOverloaded,
    QuotaExhausted,
    StreamCut,
)
from agent.tokens import estimate_messages_tokens_rough
from tests.support.histories import assistant, chat, check_sendable, summary_in, system, text, user

STAND_IN = "[CONTEXT COMPACTION] [STAND-IN]"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def raising(error: BaseException) -> Callable[[str, int], str | None]:
    def summarize(prompt: str, max_tokens: int) -> str | None:
        raise error

    return summarize


def answering(answer: str | None) -> Callable[[str, int], str | None]:
    return lambda prompt, max_tokens: answer


def engine(summarize: Any, window: int = 4_000, **options: Any) -> ContextCompressor:
    return ContextCompressor(
        window, protect_last_n=4, summarize=summarize, summary_context_length=200_000, **options
    )


FAILURES = {
    "an error": raising(ModelOverloaded()),
    "a bug in the summariser": raising(RuntimeError("boom")),
    "cut off": raising(StreamCut("The summary did not fit.")),
    "nothing": answering(None),
    "empty": answering("  \n"),
    "larger than its input": answering("word " * 50_000),
}


@pytest.mark.parametrize("summarize", FAILURES.values(), ids=FAILURES.keys())
def test_the_main_model_is_tried_next(summarize: Callable[[str, int], str | None]) -> None:
    """After every error of the auxiliary model."""
    compressor = engine(summarize, summarize_with_main=answering("## Goal\nFrom the main model."))
    compacted = compressor.compress(chat(40))
    assert "From the main model." in text(summary_in(compacted) or {})
    assert compressor.last_outcome.kind == "ok"


@pytest.mark.parametrize("summarize", FAILURES.values(), ids=FAILURES.keys())
def test_an_extract_stands_in_and_says_so(summarize: Callable[[str, int], str | None]) -> None:
    """Marked as such, smaller than what it replaces, with something of every message."""
    compressor = engine(summarize, summarize_with_main=summarize, window=16_000)
    messages = [
        system(),
        user("Hi"),
        assistant("Hi"),
        user("My order is ORD-4711."),
        assistant("Noted."),
        *chat(25, 300)[1:],
    ]
    compacted = compressor.compress(messages)
    assert compressor.last_outcome.kind == "stand_in"
    assert "takes its place" in compressor.last_outcome.detail
    compressor.on_session_start("child", boundary_reason="compression")
    assert compressor.has_fallback_summary
    stand_in = text(summary_in(compacted) or {})
    assert stand_in.startswith(STAND_IN)
    assert "[USER] My order is ORD-4711." in stand_in
    assert "[ASSISTANT] Answer 3: " in stand_in
    assert estimate_messages_tokens_rough(compacted) < estimate_messages_tokens_rough(messages)
    check_sendable(compacted)


def test_a_stand_in_is_redone_with_the_next_compaction() -> None:
    """It is handed to the summariser as an extract, together with what was said since."""
    compacted = engine(raising(ModelOverloaded())).compress(chat(40))
    prompts: list[str] = []

    def summarize(prompt: str, max_tokens: int) -> str:
        prompts.append(prompt)
        return "## Goal\nA real summary."

    compressor = engine(summarize)
    again = compressor.compress([*compacted, *chat(40)[1:]])
    assert "--- EXTRACT ---" in prompts[0]
    assert "> [ASSISTANT] Answer 30" in prompts[0]
    assert STAND_IN not in text(summary_in(again) or {})
    compressor.on_session_start("child", boundary_reason="compression")
    assert not compressor.has_fallback_summary


def test_only_a_stand_in_in_use_counts() -> None:
    """One that the host threw away is none; one from before a restart is found among the messages."""
    messages, failing = chat(40), engine(raising(ModelOverloaded()))
    compacted = failing.compress(messages)
    assert not failing.has_fallback_summary, "it is not used yet"
    restarted = engine(answering("## Goal\nGo on."))
    assert not restarted.should_compress_preflight(compacted)
    assert restarted.has_fallback_summary
    assert not restarted.should_compress_preflight(messages)
    assert not restarted.has_fallback_summary


def test_a_stand_in_alone_can_be_redone_at_leisure() -> None:
    """Even if nothing was said since; if it fails again, the list stays as it is."""
    compacted = engine(raising(ModelOverloaded())).compress(chat(40))
    assert engine(raising(ModelOverloaded())).compress(compacted) is compacted
    redone = engine(answering("## Goal\nAt last.")).compress(compacted)
    assert "At last." in text(summary_in(redone) or {})
    assert redone[4:] == compacted[4:]


def test_a_summary_survives_a_failure_after_it() -> None:
    """The fallback summary contains the last good summary."""
    good = engine(answering("## Goal\nBuild a boat.")).compress(chat(40))
    compacted = engine(raising(ModelOverloaded())).compress([*good, *chat(40)[1:]])
    assert "Build a boat." in text(summary_in(compacted) or {})


def test_failures_in_a_row_do_not_pile_up() -> None:
    """A second fallback summary is not larger than the first."""
    compressor = engine(raising(ModelOverloaded()))
    messages = compressor.compress(chat(40))
    size = estimate_messages_tokens_rough(messages)
    for _ in range(6):
        messages = compressor.compress([*messages, *chat(40)[1:]])
        assert estimate_messages_tokens_rough(messages) < size * 1.5


@pytest.mark.parametrize("error", [AuthenticationFailed("No key."), QuotaExhausted("No credit.")])
def test_a_refused_key_or_an_empty_account_compacts_nothing(error: ModelError) -> None:
    """The person has to put it right, so nothing may cover it up; and the model is not asked again at once."""
    clock = Clock()
    compressor = engine(raising(error), clock=clock, summarize_with_main=answering("no"))
    messages = chat(40)
    assert compressor.should_compress(3_000)
    assert compressor.compress(messages) is messages
    assert compressor.last_outcome.kind == "failed"
    assert str(error) in compressor.last_outcome.detail
    assert compressor.compression_count == 0
    assert not compressor.should_compress(3_000)
    clock.now += 61
    assert compressor.should_compress(3_000)


def test_a_summary_model_smaller_than_it_says_gets_smaller_pieces() -> None:
    """An overflow is an answer too: try again with half."""
    sizes: list[int] = []

    def summarize(prompt: str, max_tokens: int) -> str:
        sizes.append(len(prompt))
        if len(prompt) > 12_000:
            raise ContextOverflow
        return "## Goal\nGo on."

    compressor = ContextCompressor(16_000, protect_last_n=4, summarize=summarize)
    compressor.compress(chat(200))
    assert compressor.last_outcome.kind == "ok"
    assert max(sizes) > 12_000 > sizes[-1]


def test_without_any_summariser_the_auxiliary_model_is_asked() -> None:
    """None is bound here, which is a failure like any other."""
    compressor = ContextCompressor(4_000, protect_last_n=4)
    compressor.compress(chat(40))
    assert compressor.last_outcome.kind == "stand_in"


# No thrash


def used(compressor: ContextCompressor, prompt_tokens: int) -> None:
    compressor.update_from_response({"prompt_tokens": prompt_tokens, "completion_tokens": 1})


def test_a_compaction_that_did_not_help_backs_off_and_recovers() -> None:
    """Real tokens decide. The wait doubles, ends, and a success ends the count."""
    clock = Clock()
    compressor = engine(answering("## Goal\nGo on."), clock=clock)
    messages = compressor.compress(chat(40))
    used(compressor, 3_000)
    assert not compressor.should_compress()
    clock.now += 61
    assert compressor.should_compress()

    messages = compressor.compress([*messages, *chat(40)[1:]])
    used(compressor, 3_000)
    clock.now += 61
    assert not compressor.should_compress()
    clock.now += 60
    assert compressor.should_compress()

    compressor.compress([*messages, *chat(40)[1:]])
    used(compressor, 500)
    used(compressor, 3_000)
    assert compressor.should_compress()


def test_only_the_first_usage_after_a_compaction_counts() -> None:
    """Growing over the threshold again later does not count as a failure."""
    compressor = engine(answering("## Goal\nGo on."), clock=Clock())
    compressor.compress(chat(40))
    used(compressor, 1_000)
    used(compressor, 2_500)
    assert compressor.should_compress()


def test_usage_from_before_a_result_is_used_does_not_count() -> None:
    """A host may compact ahead; what it reports meanwhile is about the conversation as it was."""
    compressor = engine(answering("## Goal\nGo on."), clock=Clock())
    compressor.compress(chat(40))
    used(compressor, 3_000)
    compressor.on_session_start("child", boundary_reason="compression")
    assert compressor.should_compress(3_000)
    used(compressor, 3_000)
    assert not compressor.should_compress(3_000), "this one is about the result"


def test_nothing_to_do_is_no_strike() -> None:
    """Only a compaction can fail to help."""
    compressor = engine(answering("## Goal\nGo on."), clock=Clock())
    compressor.compress(chat(1))
    used(compressor, 3_000)
    assert compressor.should_compress()


def test_another_model_ends_the_wait() -> None:
    """A conversation too large for one model may fit another."""
    compressor = engine(answering("## Goal\nGo on."), clock=Clock())
    compressor.compress(chat(40))
    used(compressor, 3_000)
    compressor.update_model("other", 4_000)
    assert compressor.should_compress()


def test_another_model_ends_the_wait_for_a_result_that_is_used_later() -> None:
    """The strikes from before the compaction do not come back with its result."""
    clock = Clock()
    compressor = engine(answering("## Goal\nGo on."), clock=clock)
    messages = compressor.compress(chat(40))
    used(compressor, 3_000)
    compressor.compress([*messages, *chat(40)[1:]])
    compressor.update_model("other", 4_000)
    compressor.on_session_start("child", boundary_reason="compression")
    assert compressor.should_compress(3_000)


def test_small_usage_from_before_a_result_is_used_clears_no_strike() -> None:
    """It counts neither way: the strikes of earlier compactions hold until the result itself is measured."""
    compressor = engine(answering("## Goal\nGo on."), clock=Clock())
    messages = compressor.compress(chat(40))
    used(compressor, 3_000)
    compressor.compress([*messages, *chat(40)[1:]])
    used(compressor, 500)
    compressor.on_session_start("child", boundary_reason="compression")
    assert not compressor.should_compress(3_000)


def test_after_a_strike_the_tail_is_cut_closer() -> None:
    """The estimate was wrong; the same cut again would not help."""
    clock = Clock()
    compressor = ContextCompressor(4_000, summarize=answering("## Goal\nGo on."), clock=clock)
    messages = compressor.compress(chat(60, words=35))
    used(compressor, 3_000)
    clock.now += 61
    again = compressor.compress([*messages, user("And?")])
    assert len(again) < len(messages)


def test_usage_may_be_incomplete() -> None:
    """Some providers leave out the total, or everything."""
    compressor = engine(answering("ok"))
    compressor.update_from_response({"prompt_tokens": 10, "completion_tokens": None})
    assert (compressor.last_prompt_tokens, compressor.last_completion_tokens) == (10, 0)
    assert compressor.last_total_tokens == 10
    compressor.update_from_response({})
    assert compressor.last_prompt_tokens == 0
