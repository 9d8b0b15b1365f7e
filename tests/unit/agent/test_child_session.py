"""An engine's result becomes a plan, nothing, or an InvalidCompaction."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.context.child_session import as_messages, child_session_from, for_engine
from agent.errors import InvalidCompaction
from agent.messages import Message, ToolCall
from tests.support.hostile_engine import BAD_LISTS

HISTORY = [
    Message("user", "One."),
    Message("assistant", "", tool_calls=(ToolCall("c1", "look", "{}"),)),
    Message("tool", "Seen.", tool_call_id="c1"),
    Message("user", "Two."),
]
GIVEN = for_engine("Be brief.", HISTORY)
NEWEST = GIVEN[-1]


def call(**changed: Any) -> list[dict[str, Any]]:
    made = {"id": "c9", "type": "function", "function": {"name": "look", "arguments": "{}"}} | changed
    answer = {"role": "tool", "tool_call_id": made.get("id"), "content": "x"}
    return [{"role": "assistant", "content": None, "tool_calls": [made]}, answer, NEWEST]


@pytest.mark.parametrize(
    "returned",
    [
        *(None, 7, "text", b"bytes", {}, object(), iter(GIVEN), float("nan"), NotImplemented),
        *([], [None], [7], ["text"], [{}], [[]], [GIVEN]),
        [{"role": "user"}],
        [{"role": ["user"], "content": "x"}, NEWEST],
        [{"role": "robot", "content": "x"}, NEWEST],
        *(
            [{"role": "user", "content": content}, NEWEST]
            for content in (7, b"x", {}, [7], [{}], ["x"], "\ud800")
        ),
        [{"role": "user", "content": [{"type": "text", "text": 7}]}, NEWEST],
        [{"role": "user", "content": float("nan")}, NEWEST],
        [{"role": "system"}, NEWEST],
        [{"role": "system", "content": ["x"]}, NEWEST],
        [{"role": "user", "content": "x", "name": 7}, NEWEST],
        [{"role": "user", "content": "x", "message_id": []}, NEWEST],
        [{"role": "user", "content": "x", "message_id": {}}, NEWEST],
        [{"role": "user", "content": "x", "tool_calls": call()[0]["tool_calls"]}, NEWEST],
        [{"role": "assistant", "content": "x", "tool_calls": "call"}, NEWEST],
        [{"role": "assistant", "content": "x", "tool_calls": [None]}, NEWEST],
        *(
            call(function=function)
            for function in (None, "look", {}, {"name": "look"}, {"name": 1, "arguments": "{}"})
        ),
        *(call(id=call_id) for call_id in (None, 7, [])),
        [{"role": "tool", "content": "x", "tool_call_id": "c1"}, NEWEST],
        [{"role": "tool", "content": "x", "tool_call_id": []}, NEWEST],
        *(deed(GIVEN) for name, deed in BAD_LISTS.items() if name != "larger list"),
        [GIVEN[2], NEWEST],
        [GIVEN[3], NEWEST],
        [NEWEST, NEWEST],
        GIVEN[:2],
    ],
)
def test_nonsense_is_an_invalid_compaction(returned: object) -> None:
    """The host can catch one thing."""
    with pytest.raises(InvalidCompaction):
        child_session_from(GIVEN, as_messages(returned), HISTORY)


def test_a_shortened_request_is_taken() -> None:
    """Its beginning or its end is there, and it is smaller."""
    asked = Message("user", "Please compare these offers. " + "An offer. " * 400)
    given = for_engine("Be brief.", [*HISTORY, asked])
    for text in (f"{asked.content[:200]} [...]", f"[...] {asked.content[-200:]}"):
        plan = child_session_from(given, [given[0], {**given[-1], "content": text}], [*HISTORY, asked])
        assert plan is not None
        [copy] = plan.context
        assert isinstance(copy, Message) and (copy.kind, copy.source_id) == ("pruned", asked.id)


def test_what_a_model_wrote_may_be_kept_as_it_is() -> None:
    """Strict checks are for what the engine wrote: broken arguments of a model are history."""
    broken = Message("assistant", "", tool_calls=(ToolCall("c1", "no such tool!", "not json"),))
    history = [HISTORY[0], broken, *HISTORY[2:]]
    given = for_engine("", history)
    plan = child_session_from(given, given[:1] + given[2:], history)
    assert plan is not None and plan.context == [message.id for message in history[1:]]


def test_an_engine_may_mark_its_dicts() -> None:
    """Unknown keys are left out, even if their values are not JSON."""
    marked = [{**message, "_node": object()} for message in GIVEN]
    assert child_session_from(GIVEN, as_messages(marked), HISTORY) is None
    plan = child_session_from(GIVEN, as_messages([marked[0], marked[-1]]), HISTORY)
    assert plan is not None and plan.context == [HISTORY[-1].id]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(
    ["role", "content", "tool_calls", "tool_call_id", "name", "message_id", "created_at", "other"]
)
roles = st.sampled_from(["system", "user", "assistant", "tool", None])
odd = st.builds(
    lambda message, role: {**message, "role": role}, st.dictionaries(keys, values, max_size=5), roles
)


@given(st.lists(odd | values | st.sampled_from(GIVEN), max_size=6))
def test_whatever_it_returns(returned: list[object]) -> None:
    """A plan that can be stored, or an InvalidCompaction."""
    try:
        plan = child_session_from(GIVEN, as_messages(returned), HISTORY)
    except InvalidCompaction:
        return
    for item in plan.context if plan else ():
        assert isinstance(item, str | Message)
        if isinstance(item, Message):
            item.content.encode()
