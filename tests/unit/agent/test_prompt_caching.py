"""Prompt caching: where the markers go, on which models, and for how long."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.prompt_caching import (
    CacheTTL,
    Marked,
    PromptCaching,
    Strategy,
    apply_anthropic_cache_control,
    is_native_anthropic,
    supports_prompt_caching,
)
from tests.support.cache_markers import (
    HOUR,
    MARKER,
    NATIVE,
    OPENROUTER,
    TOOLS,
    Chat,
    Clock,
    check_markers,
    check_nothing_else_changed,
    marker_of,
    ttls,
)
from tests.support.histories import assistant, calls, result, system, user

# The documented function.


@pytest.mark.parametrize(
    ("message", "native", "marked"),
    [
        (
            user("hi"),
            False,
            {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": MARKER}]},
        ),
        (
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]},
            False,
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, {"type": "image_url", "cache_control": MARKER}],
            },
        ),
        ({"role": "user", "content": ["a"]}, False, {"role": "user", "content": ["a"]}),
        (
            {"role": "assistant", "content": None},
            False,
            {"role": "assistant", "content": None, "cache_control": MARKER},
        ),
        (assistant(""), True, {"role": "assistant", "content": "", "cache_control": MARKER}),
        ({"role": "user", "content": []}, False, {"role": "user", "content": [], "cache_control": MARKER}),
        (result("42"), True, {**result("42"), "cache_control": MARKER}),
        (result("42"), False, result("42")),
    ],
    ids=["text", "parts", "strange part", "None", "empty", "no parts", "tool, native", "tool, elsewhere"],
)
def test_where_the_marker_goes(message: Chat, native: bool, marked: Chat) -> None:
    """The documented table, row by row."""
    assert apply_anthropic_cache_control([message], native_anthropic=native) == [marked]


def test_the_system_prompt_and_the_last_three_are_marked() -> None:
    """Four markers: one at the beginning, three that move on."""
    messages = [system(), *(user(f"{n}") for n in range(10))]
    assert ttls(apply_anthropic_cache_control(messages)) == dict.fromkeys((0, 8, 9, 10), "5m")


@pytest.mark.parametrize(
    ("messages", "marked"),
    [
        ([], []),
        ([system()], [0]),
        ([system(), user("a")], [0, 1]),
        ([user(f"{n}") for n in range(5)], [2, 3, 4]),
        ([system(), user("a"), user("b"), user("c"), system("note"), user("d")], [0, 2, 3, 5]),
    ],
    ids=["nothing", "system only", "short", "no system prompt", "a system message in between"],
)
def test_unusual_lists(messages: list[Chat], marked: list[int]) -> None:
    """Never more than there is to mark, and a system message never takes the place of another."""
    assert sorted(ttls(apply_anthropic_cache_control(messages))) == marked


def test_an_hour_is_said_five_minutes_are_the_default() -> None:
    """The two markers as Anthropic writes them; anything else is refused."""
    assert marker_of(apply_anthropic_cache_control([user("a")])[0]) == MARKER
    assert marker_of(apply_anthropic_cache_control([user("a")], "1h")[0]) == HOUR
    with pytest.raises(ValueError, match="`5m` or `1h`, not for '2h'"):
        apply_anthropic_cache_control([user("a")], "2h")  # type: ignore[arg-type]


def test_the_input_is_left_alone_and_only_marked_messages_are_copied() -> None:
    """Histories are long: what carries no marker is the same object."""
    messages = [
        system(),
        user("a"),
        assistant("b"),
        {"role": "user", "content": [{"text": "c"}]},
        result("d"),
    ]
    before = deepcopy(messages)
    marked = apply_anthropic_cache_control(messages, native_anthropic=True)
    assert messages == before
    assert marked is not messages
    assert [new is old for new, old in zip(marked, messages, strict=True)] == [
        False,
        True,
        False,
        False,
        False,
    ]


# Which models.


@pytest.mark.parametrize(
    "model",
    [
        "claude-sonnet-4-5",
        "claude-3-5-haiku-latest",
        "anthropic/claude-sonnet-5",
        "anthropic/claude-opus-4-1-20250805",
        "Anthropic/Claude-Opus-4-1",
    ],
)
def test_claude_at_home(model: str) -> None:
    """Under its alias, its dated name, with or without the provider in front."""
    assert supports_prompt_caching(model) and is_native_anthropic(model)


@pytest.mark.parametrize(
    "model",
    [
        "openrouter/anthropic/claude-sonnet-4.5",
        "openrouter/anthropic/claude-3.7-sonnet:beta",
        "openrouter/~anthropic/claude-sonnet-latest",
        "openrouter/claude-sonnet-4-5",
    ],
)
def test_claude_through_openrouter(model: str) -> None:
    """Markers, but not on tool messages."""
    assert supports_prompt_caching(model) and not is_native_anthropic(model)


@pytest.mark.parametrize(
    "model",
    [
        "openai/gpt-5.4",
        "openai/claude-sonnet-4-5",
        "openrouter/openai/gpt-5.4",
        "openrouter/someone/claude-distilled",
        "anthropic.claude-3-5-sonnet-20240620-v1:0",
        "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0",
        "vertex_ai/claude-sonnet-4-5",
        "ollama/not-claude",
        "embedded/smollm2",
        "",
    ],
)
@pytest.mark.parametrize("strategy", ["system_and_3", "turn_aware"])
def test_other_models_get_no_markers(model: str, strategy: Strategy) -> None:
    """Not even Claude's namesakes, nor Claude behind another API: the request stays as it is."""
    messages = [system(), user("a")]
    marked = PromptCaching(strategy=strategy).mark("s", model, messages, TOOLS)
    assert marked.messages is messages and marked.tools == TOOLS
    assert not supports_prompt_caching(model) and not is_native_anthropic(model)


@pytest.mark.parametrize(
    ("strategy", "ttl", "model", "line"),
    [
        ("system_and_3", "5m", OPENROUTER, "💾 Prompt caching: ENABLED (Claude via OpenRouter, 5m TTL)"),
        ("system_and_3", "1h", NATIVE, "💾 Prompt caching: ENABLED (native Anthropic, 1h TTL)"),
        ("turn_aware", "5m", NATIVE, "💾 Prompt caching: ENABLED (native Anthropic, turn-aware)"),
        (
            "turn_aware",
            "5m",
            "openai/gpt-5.4",
            "Prompt caching: off (openai/gpt-5.4 does not take cache markers)",
        ),
        (
            "system_and_3",
            "5m",
            "embedded/smollm2",
            "Prompt caching: no cache markers are sent; embedded/smollm2 caches by itself",
        ),
    ],
)
def test_the_line_at_the_start(strategy: Strategy, ttl: CacheTTL, model: str, line: str) -> None:
    """It says whether, through whom and for how long."""
    assert PromptCaching(strategy=strategy, cache_ttl=ttl).status(model) == line


# system_and_3 in a real request.


def test_system_and_3_in_plain_chat_is_the_documented_function() -> None:
    """With the configured lifetime, and the tools as they are."""
    messages = [system(), *(user(f"{n}") for n in range(5))]
    marked = PromptCaching(cache_ttl="1h").mark("s", NATIVE, messages, TOOLS)
    assert marked == Marked(apply_anthropic_cache_control(messages, "1h"), TOOLS)


@pytest.mark.parametrize(("model", "marked"), [(NATIVE, [0, 3, 5, 6]), (OPENROUTER, [0, 1, 2, 3])])
def test_system_and_3_passes_over_messages_that_lose_their_marker(model: str, marked: list[int]) -> None:
    """A call without text cannot carry one, at OpenRouter no tool result can: earlier messages do instead."""
    tool_loop = [calls(("f", "{}"), ("g", "{}")), result("1"), result("2", "call_1")]
    messages = [system(), user("a"), assistant("b"), user("c"), *tool_loop]
    assert sorted(ttls(PromptCaching().mark("s", model, messages, ()).messages)) == marked


# For every conversation.

_parts = st.lists(
    st.one_of(
        st.builds(lambda text: {"type": "text", "text": text}, st.text(min_size=1, max_size=5)),
        st.just({"type": "image_url", "image_url": {"url": "data:"}}),
    ),
    max_size=3,
)
_content = st.one_of(st.none(), st.just(""), st.text(min_size=1, max_size=300), _parts)
_message = st.one_of(
    st.builds(lambda content: {"role": "user", "content": content}, _content),
    st.builds(lambda content: {"role": "assistant", "content": content}, _content),
    st.builds(lambda text: result(text), st.text(max_size=300)),
    st.just(system("a note in between")),
)
_requests = st.lists(
    st.tuples(
        st.lists(_message, max_size=6),
        st.sampled_from([0.0, 5.0, 299.0, 300.0, 900.0, 3600.0]),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=100, deadline=None)
@given(
    requests=_requests,
    strategy=st.sampled_from(["system_and_3", "turn_aware"]),
    ttl=st.sampled_from(["5m", "1h"]),
    model=st.sampled_from([NATIVE, OPENROUTER]),
    begins_with_system=st.booleans(),
)
def test_every_request_keeps_the_rules(
    requests: list[tuple[list[Chat], float, bool]],
    strategy: Strategy,
    ttl: CacheTTL,
    model: str,
    begins_with_system: bool,
) -> None:
    """At most four markers, longer before shorter, nothing else changed and nothing unmarked copied."""
    clock = Clock()
    caching = PromptCaching(strategy=strategy, cache_ttl=ttl, clock=clock)
    messages: list[Chat] = [system()] if begins_with_system else []
    for new, pause, drops_last in requests:
        clock.now += pause
        messages = [*(messages[:-1] if drops_last else messages), *new]
        before = deepcopy(messages)
        marked = caching.mark("s", model, messages, TOOLS)
        assert messages == before
        check_markers([*marked.tools, *marked.messages])
        check_nothing_else_changed(marked.messages, messages)
        if model == OPENROUTER:
            assert not any("cache_control" in message for message in marked.messages)


@settings(max_examples=100, deadline=None)
@given(messages=st.lists(_message, max_size=12), ttl=st.sampled_from(["5m", "1h"]), native=st.booleans())
def test_the_documented_function_keeps_the_rules(messages: list[Chat], ttl: CacheTTL, native: bool) -> None:
    """The same for the plain function, for any input."""
    before = deepcopy(messages)
    marked = apply_anthropic_cache_control(messages, ttl, native)
    assert messages == before
    check_markers(marked)
    check_nothing_else_changed(marked, messages)


@settings(max_examples=100, deadline=None)
@given(
    messages=st.lists(_message, max_size=12),
    ttl=st.sampled_from(["5m", "1h"]),
    model=st.sampled_from([NATIVE, OPENROUTER]),
)
def test_requests_go_through_the_documented_function(messages: list[Chat], ttl: CacheTTL, model: str) -> None:
    """It passes over what would lose its marker."""
    expected = apply_anthropic_cache_control(messages, ttl, is_native_anthropic(model), skip_unmarkable=True)
    assert PromptCaching(cache_ttl=ttl).mark("s", model, messages, TOOLS).messages == expected
