"""Prompt caching: where the markers go, on which models, and for how long."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.prompt_caching import (
    CacheTTL,
    Marked,
    Pauses,
    PromptCaching,
    Strategy,
    apply_anthropic_cache_control,
    is_native_anthropic,
    supports_prompt_caching,
)
from tests.agent.histories import assistant, calls, result, system, user

NATIVE = "anthropic/claude-sonnet-4-5"
OPENROUTER = "openrouter/anthropic/claude-sonnet-4.5"
MARKER: dict[str, Any] = {"type": "ephemeral"}
HOUR: dict[str, Any] = {"type": "ephemeral", "ttl": "1h"}
TOOLS = ({"type": "function", "function": {"name": "a"}}, {"type": "function", "function": {"name": "b"}})

Chat = dict[str, Any]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def marker_of(message: Chat) -> dict[str, Any] | None:
    """Wherever the message carries it."""
    content = message.get("content")
    inside = content[-1] if isinstance(content, list) and content and isinstance(content[-1], dict) else {}
    marker: dict[str, Any] | None = message.get("cache_control") or inside.get("cache_control")
    return marker


def ttls(messages: list[Chat]) -> dict[int, str]:
    """Which messages are marked, and for how long."""
    return {
        index: marker.get("ttl", "5m")
        for index, message in enumerate(messages)
        if (marker := marker_of(message)) is not None
    }


def without_marker(marked: Chat, original: Chat) -> Chat:
    """The message as it was: no marker anywhere, text that became a part is text again."""
    plain = {name: value for name, value in marked.items() if name != "cache_control"}
    if isinstance(plain.get("content"), list):
        parts = [
            {name: value for name, value in part.items() if name != "cache_control"}
            if isinstance(part, dict)
            else part
            for part in plain["content"]
        ]
        plain["content"] = parts[0]["text"] if isinstance(original["content"], str) else parts
    return plain


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


# turn_aware.


class Conversation:
    """One that grows request by request, marked by `turn_aware`."""

    def __init__(self, model: str = NATIVE, caching: PromptCaching | None = None) -> None:
        self.clock = Clock()
        self.model = model
        self.caching = caching or PromptCaching(strategy="turn_aware", clock=self.clock)
        self.messages: list[Chat] = [system()]

    def ask(self, *new: Chat, after: float = 0.0) -> dict[int, str]:
        self.clock.now += after
        self.messages += new
        return ttls(self.caching.mark("session", self.model, self.messages, TOOLS).messages)

    def turns(self, count: int, *, pause: float) -> dict[int, str]:
        """So many exchanges of a hundred words; the markers of the last request."""
        marked: dict[int, str] = {}
        for _ in range(count):
            said = len(self.messages)
            text = f"{said} " * 100
            marked = self.ask(*([assistant(text)] if said > 1 else []), user(text), after=pause)
        return marked


def tool_step(number: int, size: int = 400) -> list[Chat]:
    return [calls(("f", "{}"), prefix=f"call{number}"), result("r" * size, f"call{number}_0")]


def test_tools_and_system_prompt_are_kept_for_an_hour() -> None:
    """All conversations share them. The tool's marker stands beside its function, on the last tool."""
    messages = [system(), user("a")]
    marked = PromptCaching(strategy="turn_aware").mark("s", NATIVE, messages, TOOLS)
    assert marked.tools == (TOOLS[0], {**TOOLS[1], "cache_control": HOUR})
    assert marked.tools[0] is TOOLS[0]
    assert ttls(marked.messages)[0] == "1h"


def test_through_the_last_user_message_for_an_hour_after_it_for_five_minutes() -> None:
    """At first people are expected to pause; the next step of a tool loop follows at once."""
    chat = Conversation()
    assert chat.ask(user("a" * 400)) == {0: "1h", 1: "1h"}
    assert chat.ask(*tool_step(1), after=5) == {0: "1h", 1: "1h", 3: "5m"}


def test_a_marker_stays_where_the_last_request_wrote() -> None:
    """However many blocks a step adds, what was written before it is found."""
    chat = Conversation()
    chat.ask(user("a"))
    many = [("f", "{}")] * 30
    step = [calls(*many), *(result(f"{n}", f"call_{n}") for n in range(30))]
    marked = chat.ask(*step, after=5)
    assert sorted(marked) == [0, 1, len(chat.messages) - 1]
    assert sorted(chat.ask(assistant("b"), user("c"), after=40)) == [
        0,
        len(chat.messages) - 3,
        len(chat.messages) - 1,
    ]


def test_after_a_pause_the_marker_stays_at_what_is_still_alive() -> None:
    """The tool loop's five minutes are over, the hour is not."""
    chat = Conversation()
    chat.ask(user("a" * 400))
    chat.ask(*tool_step(1), after=5)
    assert 1 in chat.ask(assistant("b"), user("c"), after=600)


def test_after_more_than_an_hour_nothing_is_expected_to_be_there() -> None:
    """No marker is spent on what is gone."""
    chat = Conversation()
    chat.ask(user("a"))
    assert sorted(chat.ask(assistant("b"), user("c"), after=3600)) == [0, 3]


def test_people_who_pause_get_an_hour_for_everything() -> None:
    """Each pause would otherwise cost what the tool loop before it wrote."""
    chat = Conversation()
    chat.turns(4, pause=600)
    assert set(chat.ask(*tool_step(1), after=5).values()) == {"1h"}


def test_people_who_do_not_pause_get_five_minutes_mostly() -> None:
    """An hour now and then, at the price of one short message, keeps the whole conversation from being lost."""
    chat = Conversation()
    chat.turns(50, pause=40)
    ends = [chat.turns(1, pause=40)[len(chat.messages) - 1] for _ in range(50)]
    assert 1 <= ends.count("1h") <= 5


def test_a_short_message_after_long_results_makes_them_last() -> None:
    """The hour is paid for the new message only, and holds all that came before it."""
    chat = Conversation()
    chat.turns(3, pause=40)
    assert chat.ask(*tool_step(1, size=40_000), after=5)[len(chat.messages) - 1] == "5m"
    marked = chat.ask(assistant("done"), user("thanks"), after=40)
    assert marked[len(chat.messages) - 1] == "1h"
    assert marked[len(chat.messages) - 3] == "1h", "no shorter lifetime may come before a longer one"


def test_a_message_that_was_never_stored_is_not_relied_on() -> None:
    """The last step of a turn ends with a note that the next request does not have."""
    chat = Conversation()
    chat.ask(user("a"))
    chat.ask(*tool_step(1), user("[Answer now.]"), after=5)
    chat.messages.pop()
    assert sorted(chat.ask(assistant("b"), user("c"), after=40)) == [0, 1, len(chat.messages) - 1]


def test_another_session_and_another_model_begin_anew() -> None:
    """After a split positions mean other messages, and each model has a cache of its own."""
    chat = Conversation()
    chat.turns(3, pause=40)
    assert len(chat.ask()) == 2, "asked again, it is all there: nothing new is written"
    for session, model in (("session", "anthropic/claude-opus-4-1"), ("child", NATIVE)):
        marked = chat.caching.mark(session, model, chat.messages, TOOLS)
        assert sorted(ttls(marked.messages)) == [0, len(chat.messages) - 1]


def test_openrouter_keeps_the_marker_on_the_last_text() -> None:
    """Nothing in a tool loop can carry one there, and tools are not marked."""
    chat = Conversation(OPENROUTER)
    chat.ask(user("a"))
    assert chat.ask(*tool_step(1), after=5) == {0: "1h", 1: "1h"}
    assert chat.caching.mark("session", OPENROUTER, chat.messages, TOOLS).tools == TOOLS


def test_sessions_are_forgotten_oldest_first() -> None:
    """Memory is bounded; a conversation that was forgotten only costs a little more."""
    caching = PromptCaching(strategy="turn_aware")
    messages = [system(), user("a")]
    for number in range(1001):
        caching.mark(f"{number}", NATIVE, messages, ())
    longer = [*messages, assistant("b"), user("c")]
    assert sorted(ttls(caching.mark("0", NATIVE, longer, ()).messages)) == [0, 3]
    assert sorted(ttls(caching.mark("1000", NATIVE, longer, ()).messages)) == [0, 1, 3]


def test_a_new_conversation_is_expected_to_be_like_the_others() -> None:
    """What one person showed counts a little for the next, and their own pauses count more."""
    everybody = Pauses()
    unhurried = everybody.chance
    for _ in range(100):
        Pauses(everybody).note(40)
    quick = Pauses(everybody).chance
    assert quick < unhurried / 5
    slow = Pauses(everybody)
    for _ in range(10):
        slow.note(600)
    assert Pauses(everybody).chance < slow.chance > 0.5


@pytest.mark.parametrize(("seconds", "grows"), [(299, False), (300, True), (3599, True), (3600, False)])
def test_only_a_pause_that_an_hour_survives_speaks_for_an_hour(seconds: float, grows: bool) -> None:
    """Shorter ones five minutes survive, longer ones nothing does."""
    pauses = Pauses()
    before = pauses.chance
    pauses.note(seconds)
    assert (pauses.chance > before) is grows


# Whatever the conversation.

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


@settings(max_examples=200, deadline=None)
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


@settings(max_examples=200, deadline=None)
@given(messages=st.lists(_message, max_size=12), ttl=st.sampled_from(["5m", "1h"]), native=st.booleans())
def test_the_documented_function_keeps_the_rules(messages: list[Chat], ttl: CacheTTL, native: bool) -> None:
    """The same for the function on its own, whatever it is given."""
    before = deepcopy(messages)
    marked = apply_anthropic_cache_control(messages, ttl, native)
    assert messages == before
    check_markers(marked)
    check_nothing_else_changed(marked, messages)


def check_markers(parts: list[Chat]) -> None:
    lifetimes = list(ttls(parts).values())
    assert len(lifetimes) <= 4
    assert lifetimes == sorted(lifetimes), "1h comes before 5m"


def check_nothing_else_changed(marked: list[Chat], original: list[Chat]) -> None:
    for new, old in zip(marked, original, strict=True):
        if marker_of(new) is None:
            assert new is old
        else:
            assert without_marker(new, old) == old
