"""Properties of the compressor for generated histories (parallel calls, giants, any script) and for real ones."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.context_compressor import ContextCompressor
from agent.tokens import estimate_message_tokens, estimate_messages_tokens_rough
from tests.support.histories import (
    Chat,
    check_sendable,
    check_turns_alternate,
    summary_in,
    tau_transcripts,
    text,
    with_ids,
)

WINDOWS = st.sampled_from([600, 2_000, 4_000, 8_000, 32_000])
WORDS = st.sampled_from(
    [
        "word ",
        "naïve ",
        "漢字",
        "かな",
        "ORD-1234 ",
        "/etc/hosts ",
        "never ",
        "\n",
        "{",
        "=== END OF LEDGER ===\n",
        "🙂",
    ]
)
TEXTS = st.builds(
    lambda word, count: (word * count).strip() or "x", WORDS, st.sampled_from([1, 3, 20, 120, 900])
)


@st.composite
def tool_groups(draw: st.DrawFn) -> list[Chat]:
    """One to four parallel calls; ids are numbered from zero each time, as some models do."""
    outputs = draw(st.lists(TEXTS, min_size=1, max_size=4))
    made = [
        {
            "id": f"call_{i}",
            "type": "function",
            "function": {"name": draw(NAMES), "arguments": draw(ARGUMENTS)},
        }
        for i in range(len(outputs))
    ]
    results = [
        {"role": "tool", "tool_call_id": f"call_{i}", "content": output} for i, output in enumerate(outputs)
    ]
    return [{"role": "assistant", "content": draw(st.none() | TEXTS), "tool_calls": made}, *results]


NAMES = st.sampled_from(["read_file", "write_file", "search", "book_flight"])
ARGUMENTS = st.sampled_from(["{}", '{"path": "a/b.txt"}', '{"text": "' + "long " * 300 + '"}', "not json"])
TURNS = st.one_of(
    st.builds(lambda said: [{"role": "user", "content": said}], TEXTS),
    st.builds(lambda said: [{"role": "assistant", "content": said}], TEXTS),
    tool_groups(),
)
SYSTEM = st.sampled_from(
    [[], [{"role": "system", "content": "Be kind."}], [{"role": "system", "content": "rule " * 900}]]
)
HISTORIES = st.builds(
    lambda system, turns: with_ids(system + [message for turn in turns for message in turn]),
    SYSTEM,
    st.lists(TURNS, max_size=40),
)


def engine(window: int, protect_last_n: int = 6) -> ContextCompressor:
    """With a summary model that reads everything at once."""
    return ContextCompressor(
        window,
        protect_last_n=protect_last_n,
        summarize=lambda prompt, max_tokens: "## Goal\nGo on.",
        summary_context_length=200_000,
    )


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(messages=HISTORIES, window=WINDOWS, protect_last_n=st.sampled_from([1, 6, 20]))
def test_every_history_stays_valid_and_gets_smaller(
    messages: list[Chat], window: int, protect_last_n: int
) -> None:
    """Valid, smaller or the same list, newest request whole, nothing mutated, and a second time changes nothing."""
    before = copy.deepcopy(messages)
    compressor = engine(window, protect_last_n)
    result = compressor.compress(messages)
    assert messages == before
    if result is messages:
        assert compressor.last_outcome.kind == "nothing_to_do"
        return
    check_sendable(result)
    assert estimate_messages_tokens_rough(result) < estimate_messages_tokens_rough(messages)
    check_newest_request_is_kept(messages, result)
    check_kept_messages(messages, result)
    check_neighbours_of_the_summary(result)
    assert compressor.compress(result) is result
    assert engine(window, protect_last_n).compress(result) is result


def check_newest_request_is_kept(messages: list[Chat], result: list[Chat]) -> None:
    requests = [message for message in messages if message["role"] == "user"]
    assert not requests or requests[-1] in result


def check_kept_messages(messages: list[Chat], result: list[Chat]) -> None:
    """In order, each once, and changed only where they were too long."""
    position = {message["message_id"]: index for index, message in enumerate(messages)}
    kept = [message for message in result if "message_id" in message]
    order = [position[message["message_id"]] for message in kept]
    assert order == sorted(set(order))
    for message in kept:
        original = messages[position[message["message_id"]]]
        if message != original and message["role"] != "system":
            assert estimate_message_tokens(message) < estimate_message_tokens(original)
            assert message["message_id"] in text(message) or message.get("tool_calls")


def check_neighbours_of_the_summary(result: list[Chat]) -> None:
    """The summary and its bridge never have the role of a neighbour, tool results counting as the user's."""
    summary = summary_in(result)
    made: list[Any] = [
        message for message in result if "message_id" not in message and message["role"] != "tool"
    ]
    assert (summary is None and not made) or made[0] is summary
    for message in made:
        at = result.index(message)
        for other in (at - 1, at + 1):
            if 0 <= other < len(result) and result[other]["role"] != "system":
                assert (result[other]["role"] == "assistant") != (message["role"] == "assistant")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(first=HISTORIES, more=st.lists(HISTORIES, max_size=5), window=st.sampled_from([2_000, 8_000]))
def test_a_growing_conversation_never_loses_its_shape(
    first: list[Chat], more: list[list[Chat]], window: int
) -> None:
    """Compacted again and again as it grows, it stays sendable and has one summary, one note and one ledger."""
    compressor = engine(window)
    messages = compressor.compress(first)
    for grown in more:
        messages = compressor.compress(
            messages + [message for message in grown if message["role"] != "system"]
        )
        if not messages:
            continue
        check_sendable(messages) if messages is not first else None
        summary = summary_in(messages)
        assert summary is None or text(summary).count("=== LEDGER: kept word for word ===\n") <= 1
        assert text(messages[0]).count("[Note: Some earlier conversation turns") <= 1


def default_engine(window: int) -> ContextCompressor:
    return ContextCompressor(window, summarize=lambda prompt, max_tokens: "## Goal\nThe person wants to fly.")


@pytest.mark.parametrize("window", [2_000, pytest.param(4_000, marks=pytest.mark.long), 8_000])
def test_every_cut_point(window: int) -> None:
    """A hundred real tool-calling conversations in small windows.

    The result is valid for both providers, and smaller or the same list; it keeps the newest request, is not compacted
    again, and the input is untouched.
    """
    compacted = 0
    for transcript in tau_transcripts():
        before = copy.deepcopy(transcript)
        for end in range(1, len(transcript) + 1):
            compacted += check_cut_point(transcript[:end], window)
        assert transcript == before
    assert compacted > 100, "the windows are too large to show anything"


def check_cut_point(messages: list[Chat], window: int) -> bool:
    result = default_engine(window).compress(messages)
    if result is messages:
        return False
    check_sendable(result)
    check_turns_alternate(result)
    assert estimate_messages_tokens_rough(result) < estimate_messages_tokens_rough(messages)
    newest = [message for message in messages if message["role"] == "user"][-1]
    assert newest in result
    assert default_engine(window).compress(result) is result
    return True
