"""The example engine keeps whole turns, fits its budget, and produces a valid history."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.context_engine import ContextEngine
from agent.tokens import estimate_messages_tokens_rough
from tests.support.foreign_plugins import make_engines
from tests.support.histories import (
    Chat,
    assistant,
    calls,
    chat,
    check_sendable,
    check_turns_alternate,
    group,
    result,
    system,
    tau_transcripts,
    user,
)

NOWHERE = Path("no-state-directory")


def sliding_window(context_length: int) -> ContextEngine:
    return make_engines(NOWHERE, name="sliding_window", window=context_length)[0]


def check(engine: ContextEngine, messages: list[Chat]) -> list[Chat]:
    """Check everything that must hold for any history, and return the compacted one."""
    before = copy.deepcopy(messages)
    compacted = engine.compress(messages)
    assert messages == before, "the input was changed"
    check_sendable(compacted)
    check_turns_alternate(compacted)
    assert compacted is messages or estimate_messages_tokens_rough(
        compacted
    ) < estimate_messages_tokens_rough(messages)
    assert [message for message in messages if message["role"] == "user"][-1] in compacted
    assert engine.compress(compacted) == compacted, "a second look changes it again"
    return compacted


def contents(messages: list[Chat]) -> list[str]:
    return [str(message["content"])[:10] for message in messages]


def test_the_first_turn_and_the_newest_stay() -> None:
    """The model is told about the gap, and the messages are the same objects."""
    history = chat(40, words=100)
    compacted = check(sliding_window(8_000), history)
    assert contents(compacted[1:3]) == ["Question 0", "Answer 0: "]
    assert compacted[3:] == history[-len(compacted[3:]) :] and compacted[3]["role"] == "user"
    assert compacted[-1] is history[-1]
    assert compacted[0]["content"].startswith(history[0]["content"]) and "left out" in compacted[0]["content"]
    assert estimate_messages_tokens_rough(compacted) <= 2_000


def test_what_fits_stays_as_it_is() -> None:
    """The same list is returned."""
    history = chat(3)
    engine = sliding_window(8_000)
    assert engine.compress(history) is history
    assert engine.compression_count == 0


def test_the_system_prompt_changes_once() -> None:
    engine = sliding_window(4_000)
    once = engine.compress(chat(40))
    twice = engine.compress([*once, *chat(40)[1:]])
    assert once[0] == twice[0]
    assert engine.compression_count == 2


def test_a_long_newest_turn_keeps_the_request_and_the_newest_steps() -> None:
    steps = [part for number in range(40) for part in group("read", "{}", f"{number} " * 200, f"c{number}")]
    history = [*chat(2), user("Read all of them."), *steps]
    compacted = check(sliding_window(4_000), history)
    assert compacted[-2:] == history[-2:]
    assert estimate_messages_tokens_rough(compacted) <= 1_000


def test_a_giant_result_does_not_wedge_the_turn() -> None:
    """A copy of it is truncated and stays with its call."""
    history = [system(), user("Read it."), *group("read", "{}", "word " * 50_000, "c")]
    compacted = check(sliding_window(8_000), history)
    assert len(compacted) == 4
    assert estimate_messages_tokens_rough(compacted) < 2_000


@pytest.mark.parametrize(
    "history",
    [
        [system("x" * 100_000)],
        [assistant("a " * 50_000)],
        [system(), assistant("hello"), *group("read", "{}", "word " * 50_000, "c")],
    ],
    ids=["system", "assistant", "no-user"],
)
def test_histories_without_a_user(history: list[Chat]) -> None:
    check_sendable(sliding_window(2_000).compress(history))


def test_a_larger_window_keeps_more() -> None:
    engine = sliding_window(4_000)
    few = engine.compress(chat(100))
    engine.update_model("other/model", 40_000)
    assert len(engine.compress(chat(100))) > len(few)


@pytest.mark.parametrize("window", [2_000, 4_000, 8_000])
def test_every_cut_of_real_transcripts(window: int) -> None:
    engine = sliding_window(window)
    for transcript in tau_transcripts():
        for end in range(2, len(transcript) + 1):
            if transcript[end - 1]["role"] != "assistant" or not transcript[end - 1].get("tool_calls"):
                check(engine, _paired(transcript[:end]))


def _paired(messages: list[Chat]) -> list[Chat]:
    """Tell whether a model is asked here: not between the results of one message."""
    open_calls: set[str] = set()
    whole = 0
    for index, message in enumerate(messages):
        open_calls |= {call["id"] for call in message.get("tool_calls") or ()}
        open_calls.discard(message.get("tool_call_id", ""))
        whole = whole if open_calls else index + 1
    return messages[:whole]


words = st.integers(0, 400).map(lambda count: "word " * count)


@st.composite
def turns(draw: st.DrawFn) -> list[Chat]:
    """Strategy: a request, rounds of parallel calls, and an answer."""
    made: list[Chat] = [user("Please. " + draw(words))]
    for round_number in range(draw(st.integers(0, 3))):
        results = draw(st.lists(words, min_size=1, max_size=3))
        prefix = f"c{draw(st.integers(0, 10**9))}_{round_number}"
        made.append(calls(*[("read", "{}")] * len(results), prefix=prefix))
        made += [result(text or "ok", f"{prefix}_{index}") for index, text in enumerate(results)]
    return [*made, assistant("Done. " + draw(words))]


@settings(max_examples=80, deadline=None)
@given(
    history=st.lists(turns(), min_size=1, max_size=12),
    window=st.sampled_from([500, 2_000, 8_000]),
    answered=st.booleans(),
)
def test_any_history(history: list[list[Chat]], window: int, answered: bool) -> None:
    said: list[Any] = [system(), *(message for turn in history for message in turn)]
    check(sliding_window(window), said if answered else said[:-1])
