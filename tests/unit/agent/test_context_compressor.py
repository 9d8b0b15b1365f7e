"""The built-in engine: its numbers, what it prunes, and where it cuts."""

from __future__ import annotations

import json

import pytest

from agent.tokens import estimate_messages_tokens_rough
from tests.support.histories import (
    assistant,
    calls,
    chat,
    check_sendable,
    check_turns_alternate,
    group,
    result,
    system,
    text,
    user,
    with_ids,
)
from tests.support.recorder import Recorder, engine

PRUNED = "[Old tool output cleared to save context space]"

# The numbers


def test_the_documented_numbers_for_a_window_of_200k() -> None:
    """As the documentation prints them."""
    compressor = engine(200_000)
    assert compressor.threshold_tokens == 100_000
    assert compressor.tail_token_budget == 20_000
    assert compressor.max_summary_tokens == 10_000
    assert compressor.protect_last_n == 20
    assert compressor.protect_first_n == 3
    assert compressor.name == "compressor"


def test_the_largest_summary_is_capped() -> None:
    """5 % of a million would be too much."""
    assert engine(1_000_000).max_summary_tokens == 12_000


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("threshold", 1.1),
        ("threshold", -0.1),
        ("target_ratio", 0.05),
        ("target_ratio", 0.9),
        ("protect_last_n", 0),
    ],
)
def test_settings_outside_their_range_are_refused(option: str, value: float) -> None:
    """With a sentence that names the setting."""
    with pytest.raises(ValueError, match=option):
        engine(4_000, **{option: value})


def test_a_window_that_is_no_window_is_refused() -> None:
    """Zero would compact for ever."""
    with pytest.raises(ValueError, match="context length"):
        engine(0)


def test_another_model_means_other_numbers() -> None:
    """All of them follow the window; the ratio stays as configured."""
    compressor = engine(200_000, threshold=0.6)
    compressor.update_model("small", 10_000, base_url="", api_key="", provider="local")
    assert compressor.threshold_tokens == 6_000
    assert compressor.tail_token_budget == 1_200
    assert compressor.max_summary_tokens == 500


@pytest.mark.parametrize(
    ("window", "words", "expected"),
    [(200_000, 2_000, 2_000), (200_000, 60_000, 10_000), (8_000, 2_000, 400)],
    ids=["the minimum", "the maximum", "a maximum below the minimum stands"],
)
def test_the_summary_budget_has_a_minimum_and_a_maximum(window: int, words: int, expected: int) -> None:
    """20 % of the content, at least 2,000, at most 5 % of the window."""
    recorder = Recorder()
    engine(window, recorder)._generate_summary([user("word " * words)])
    assert recorder.asked[0][1] == expected


def test_the_summary_budget_is_a_fifth_of_the_content() -> None:
    """Between the two bounds."""
    recorder = Recorder()
    turns = [user("word " * 24_000)]
    engine(200_000, recorder)._generate_summary(turns)
    assert recorder.asked[0][1] == pytest.approx(estimate_messages_tokens_rough(turns) * 0.2, rel=0.02)


# Phase 1: prune


def test_old_tool_results_are_cleared_for_the_summariser() -> None:
    """Over 200 characters, and outside the tail; what is shorter or newer is seen whole."""
    recorder = Recorder()
    old = group("read_file", '{"path": "a"}', "x" * 201, "old") + group(
        "read_file", '{"path": "b"}', "y" * 200, "short"
    )
    messages = [system(), user("Read."), assistant("Yes."), *old, *chat(20)[1:]]
    engine(2_000, recorder, protect_last_n=4).compress(messages)
    assert PRUNED in recorder.prompts[0]
    assert "x" * 201 not in recorder.prompts[0]
    assert "y" * 200 in recorder.prompts[0]


def test_tool_results_in_the_tail_stay_whole() -> None:
    """The model is still working with them."""
    newest = [user("And now?"), *group("read_file", "{}", "z" * 900, "new")]
    result = engine(8_000, protect_last_n=3).compress(chat(60) + newest)
    assert result[-3:] == newest


# Phase 2: boundaries


def test_head_and_tail_stay_as_they_are() -> None:
    """The first three messages except the note, and at least the last twenty."""
    messages = with_ids(chat(60))
    result = engine(8_000).compress(messages)
    assert result[0]["content"].startswith(messages[0]["content"])
    assert result[1:3] == messages[1:3]
    assert result[-20:] == messages[-20:]
    assert len(result) < len(messages)


def test_the_budget_protects_more_than_the_minimum() -> None:
    """Small messages are kept as long as they fit 20 % of the threshold."""
    messages = [system(), *(message for n in range(400) for message in (user(f"u{n}"), assistant(f"a{n}")))]
    compressor = engine(8_000, protect_last_n=2)
    kept = len(compressor.compress(messages)) - 4
    tail = estimate_messages_tokens_rough(messages[-kept:])
    assert kept > 100
    assert tail <= compressor.tail_token_budget + 10


def test_a_head_that_would_part_a_tool_group_ends_before_it() -> None:
    """As in the documented example: the summary takes the place of the first tool call."""
    messages = [
        system(),
        user("Set up a project"),
        *group("terminal", '{"command": "mkdir p"}', "created", "c1"),
    ]
    messages += [assistant("It is set up."), *chat(40)[1:]]
    result = engine(4_000, protect_last_n=4).compress(messages)
    assert result[1] == user("Set up a project")
    assert text(result[2]).startswith("[CONTEXT COMPACTION]")
    assert result[2]["role"] == "assistant"


@pytest.mark.parametrize("index", [3, 4, 5])
def test_a_boundary_moves_back_to_the_call(index: int) -> None:
    """Past consecutive results to the parent, however many calls were made at once."""
    parallel = [calls(("a", "{}"), ("b", "{}"), ("c", "{}")), *(result("ok", f"call_{n}") for n in range(3))]
    messages = [system(), user("Go"), *parallel, user("Next")]
    assert engine()._align_boundary_backward(messages, index) == 2
    assert engine()._align_boundary_backward(messages, 6) == 6


def test_the_newest_request_is_kept_when_much_was_done_since() -> None:
    """A long tool loop must not push the question it answers out of sight, nor be kept whole because of it."""
    request = user("Please compare all of these files.")
    loop = [
        m for n in range(60) for m in group("read_file", f'{{"path": "{n}"}}', "line of text " * 60, f"c{n}")
    ]
    messages = [*chat(10), request, *loop]
    compressor = engine(8_000, protect_last_n=6)
    result = compressor.compress(messages)
    assert request in result
    assert estimate_messages_tokens_rough(result) < compressor.threshold_tokens
    check_sendable(result)
    check_turns_alternate(result)


def test_a_tail_of_giants_is_bounded() -> None:
    """Twenty protected messages with huge results: the count must not keep the conversation from shrinking."""
    loop = [
        m
        for n in range(10)
        for m in group("read_file", f'{{"path": "{n}"}}', f"{n} line of text " * 4_000, f"c{n}")
    ]
    messages = with_ids([*chat(5), user("Read them all."), *loop])
    compressor = engine(32_000)
    result = compressor.compress(messages)
    assert estimate_messages_tokens_rough(result) < compressor.threshold_tokens
    assert [m["message_id"] for m in result[-20:]] == [m["message_id"] for m in messages[-20:]]
    assert estimate_messages_tokens_rough(result) > compressor.threshold_tokens * 0.7, "cut more than needed"
    assert compressor.last_outcome.shortened > 0
    shortened = [m for m in result if m["role"] == "tool" and m not in messages]
    assert all(f"the full text is in message {m['message_id']}" in m["content"] for m in shortened)
    check_sendable(result)


def test_the_newest_results_are_bounded_last() -> None:
    """The model is about to answer from them."""
    loop = [
        m for n in range(10) for m in group("read_file", f'{{"path": "{n}"}}', "line of text " * 900, f"c{n}")
    ]
    messages = [*chat(5), user("Read them all."), *loop]
    assert engine(16_000).compress(messages)[-1] == messages[-1]


def test_a_giant_in_the_first_exchange_does_not_live_for_ever() -> None:
    """It stays, shortened, because everything after it needs room."""
    messages = with_ids(
        [system(), user("Look at this: " + "paste " * 9_000), assistant("I see."), *chat(40)[1:]]
    )
    compressor = engine(8_000)
    result = compressor.compress(messages)
    assert result[1]["message_id"] == "msg-1"
    assert estimate_messages_tokens_rough(result) < compressor.threshold_tokens


def test_shortening_alone_settles_in_one_call() -> None:
    """Shorter messages can mean other boundaries; the next call must find nothing left to do."""
    messages = [
        system("rule " * 900),
        *group("search", "{}", "word", "c1"),
        user("word " * 150),
        *group("search", "{}", "word " * 1_000, "c2"),
        assistant("word"),
    ]
    compacted = engine(4_000, protect_last_n=1).compress(messages)
    assert compacted is not messages
    assert engine(4_000, protect_last_n=1).compress(compacted) is compacted


def test_a_giant_request_is_left_alone() -> None:
    """The newest request is never truncated."""
    giant = user("Summarise this: " + "paste " * 9_000)
    assert giant in engine(8_000).compress([*chat(30), giant])


def test_long_arguments_are_bounded_and_stay_an_object() -> None:
    """Providers refuse arguments that are not JSON."""
    written = json.dumps({"path": "book.txt", "text": "line of text " * 3_000})
    messages = [
        *chat(5),
        user("Write a book."),
        *group("write_file", written, "written", "c1"),
        user("Thanks."),
    ]
    result = engine(4_000, protect_last_n=3).compress(messages)
    made = next(m for m in result if m.get("tool_calls"))["tool_calls"][0]["function"]["arguments"]
    assert json.loads(made)["path"] == "book.txt"
    assert len(made) < len(written) / 10


def test_a_history_without_a_system_prompt() -> None:
    """Engines may get lists without a system prompt; no message gets a note then."""
    messages = chat(60)[1:]
    result = engine(4_000, protect_last_n=4).compress(messages)
    assert result[:2] == messages[:2]
    assert "[Note:" not in json.dumps(result)
    check_sendable(result)
    check_turns_alternate(result)
