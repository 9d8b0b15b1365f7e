"""The door to the tools: what is offered, what arguments may look like, and that nothing gets out but text."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.tokens import estimate_text_tokens
from agent.toolbox import Toolbox
from plugins.context_engine.lcm import tools
from tests.support.lcm_tools_harness import LcmToolsHarness, fill_history, opened, summary, user

NAMES = ["lcm_grep", "lcm_describe", "lcm_expand", "lcm_expand_query", "lcm_status", "lcm_doctor"]
HOST_SHOWS = inspect.signature(Toolbox).parameters["result_limit"].default
"""Characters of a tool's result. Out of a longer one the middle is cut."""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LcmToolsHarness]:
    """For tests that only ask."""
    with opened(tmp_path_factory.mktemp("small")) as harness:
        fill_history(harness)
        yield harness


@pytest.fixture
def own_harness(tmp_path: Path) -> Iterator[LcmToolsHarness]:
    with opened(tmp_path) as harness:
        yield harness


def error(told: str) -> str:
    return str(json.loads(told)["error"])


def test_the_tools_stand_in_a_fixed_order() -> None:
    """The provider's cache depends on it. Each schema is one that providers take."""
    schemas = tools.schemas()
    assert [schema["name"] for schema in schemas] == NAMES
    for schema in schemas:
        assert schema["description"]
        assert schema["parameters"]["type"] == "object"
        assert set(schema["parameters"].get("required", ())) <= set(schema["parameters"]["properties"])
    assert tools.schemas() == schemas


@pytest.mark.parametrize(
    ("name", "args", "told"),
    [
        ("lcm_expnd", {"id": "m1"}, "Did you mean `lcm_expand`"),
        ("lcm_expand", {"ids": "m1"}, "`lcm_expand` has no parameter `ids`. Did you mean `id`?"),
        ("lcm_expand", {}, "needs `id`"),
        ("lcm_expand", {"id": None}, "needs `id`"),
        ("lcm_expand", {"id": 12}, "`id` must be a text, not 12"),
        ("lcm_expand", {"id": "m1", "page": "two"}, "`page` must be a whole number, not 'two'"),
        ("lcm_expand", {"id": "m1", "page": True}, "`page` must be a whole number"),
        ("lcm_expand", {"id": "m1", "page": 0}, "`page` must be 1 or more"),
        ("lcm_expand", {"id": "m1", "originals": "maybe"}, "`originals` must be true or false"),
        ("lcm_expand", {"id": "m1", "page": 7}, "m1 has no page 7"),
        ("lcm_expand", {"id": "the one about trains"}, "is not an id. Ids look like `m12`"),
        ("lcm_expand", {"id": "s1-s3"}, "is not an id"),
        ("lcm_expand", {"id": "m99"}, "There is no m99: the conversation has m1 to m12"),
        ("lcm_expand", {"id": "m0"}, "There is no m0"),
        ("lcm_expand", {"id": "s99"}, "There is no summary s99"),
        ("lcm_expand", {"id": "c77.m1"}, "There is no conversation `c77`"),
        ("lcm_describe", {"id": "m" + "9" * 40}, "is not an id"),
        ("lcm_expand_query", {"question": "   "}, "`question` is empty"),
        ("lcm_expand_query", {"question": "Why?", "ids": ["m1", "x"]}, "`x` is not an id"),
        ("lcm_expand_query", {"question": "Why?", "ids": [1]}, "`ids` must be a text"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(
    harness: LcmToolsHarness, name: str, args: dict[str, object], told: str
) -> None:
    """The result says what to do next, as JSON, without an exception."""
    assert told in error(tools.answer(name, args, harness.call_context()))


@pytest.mark.parametrize("written", ["m3", "M3", "[m3]", "`m3`", " m3. ", "c1.m3", "m3-m3", "m3-3"])
def test_ids_as_models_write_them(harness: LcmToolsHarness, written: str) -> None:
    """Nobody has to be told twice because of a bracket."""
    assert list(harness.originals(id=written)) == ["m3"]


@pytest.mark.parametrize("written", ["m3-m5", "m5-m3", "m3 - m5", "m3–m5", "m3-5", "c1.m3-c1.m5"])
def test_ranges_as_models_write_them(harness: LcmToolsHarness, written: str) -> None:
    """In either direction."""
    assert list(harness.originals(id=written)) == ["m3", "m4", "m5"]


def test_a_range_ends_with_the_conversation(harness: LcmToolsHarness) -> None:
    """Its beginning is there, so that is given."""
    assert list(harness.originals(id="m11-m500")) == ["m11", "m12"]


def test_numbers_and_truths_as_text(harness: LcmToolsHarness) -> None:
    """Models put quotes around them."""
    told = harness.call("lcm_expand", id="s3", originals="true", page="1", max_tokens="600")
    assert "[m1 user" in told


def test_another_persons_conversation_is_not_there(own_harness: LcmToolsHarness) -> None:
    """Not by its own ids, not with the name of the conversation, and the answer is as if it did not exist."""
    harness = own_harness
    fill_history(harness)
    said = harness.say(user("My secret is blue."), conversation="theirs", person="eve")
    theirs = harness.leaf(said, summary("A secret."), "theirs")
    for name in ("lcm_expand", "lcm_describe"):
        for written in (theirs.id, f"c2.{theirs.id}", "c2.m1", "c2.m1-m5"):
            told = harness.call(name, id=written)
            assert "secret" not in told
            assert error(told).replace("c2", "c77").replace(theirs.id, "s77") == error(
                harness.call(name, id=written.replace("c2", "c77").replace(theirs.id, "s77"))
            )
    told = harness.call("lcm_expand_query", question="What is the secret?", ids=["c2.m1"])
    assert "There is no conversation" in error(told)


def test_another_conversation_of_the_same_person(own_harness: LcmToolsHarness) -> None:
    """Under its own name; a summary's number alone says where it is."""
    harness = own_harness
    fill_history(harness)
    said = harness.say(user("The other chat."), conversation="there")
    node = harness.leaf(said, summary("Other."), "there")
    assert harness.originals(id="c2.m1")["c2.m1"].content == "The other chat."
    assert harness.originals(id=f"c2.{node.id}")["c2.m1"].content == "The other chat."
    assert f"ask for `c2.{node.id}`" in error(harness.call("lcm_expand", id=node.id))
    assert "c2.m1" in harness.call("lcm_describe", id="c2.m1")
    # Where the host says no name, nobody is the same person.
    nameless = harness.call_context(person="")
    assert "no conversation" in error(tools.answer("lcm_expand", {"id": "c2.m1"}, nameless))


def test_before_anything_is_stored(own_harness: LcmToolsHarness) -> None:
    """A new conversation is told so by every tool."""
    harness = own_harness
    assert "Nothing of this conversation is stored yet" in error(harness.call("lcm_expand", id="m1"))
    assert "Nothing of this conversation is stored yet" in error(harness.call("lcm_describe"))
    assert "Nothing of this conversation is stored yet" in harness.call("lcm_doctor")
    assert "Messages: 0 stored" in harness.call("lcm_status")


def test_a_file_that_is_no_database(own_harness: LcmToolsHarness) -> None:
    """What cannot be read is said to the model, and the turn goes on."""
    harness = own_harness
    harness.database.path.write_bytes(b"not a database at all, " * 100)
    for name, args in {"lcm_expand": {"id": "m1"}, "lcm_status": {}, "lcm_doctor": {}}.items():
        assert "could not be read" in error(harness.call(name, **args))


def test_a_database_of_a_later_version(own_harness: LcmToolsHarness) -> None:
    """It is left alone, and the sentence says what to do."""
    harness = own_harness
    fill_history(harness)
    harness.close()  # or it would go on with the file it has open
    harness.sql("PRAGMA user_version = 999")
    assert "Install the newer Hermes" in error(harness.call("lcm_status"))


def test_no_result_is_larger_than_it_may_be(own_harness: LcmToolsHarness) -> None:
    """Neither than the host shows in one piece, nor than a third of the window."""
    harness = own_harness
    said = harness.say(*(user(f"{n} " + "word 漢字 " * 300, name="Anna" * 50) for n in range(240)))
    leaves = [harness.leaf(said[n : n + 12], summary("s " * 2_000, "t " * 500)) for n in range(0, 240, 12)]
    harness.show(harness.condensed(leaves, summary("x", "t" * 900)), *said[-4:])
    calls = [
        ("lcm_describe", {}),
        ("lcm_describe", {"id": "m1-m240"}),
        ("lcm_describe", {"id": "s21"}),
        ("lcm_expand", {"id": "m1-m240", "max_tokens": 10**9}),
        ("lcm_expand", {"id": "s21"}),
        ("lcm_expand_query", {"question": "word?", "ids": ["s21"]}),
        ("lcm_status", {}),
        ("lcm_doctor", {}),
    ]
    for window in (2_000, 8_000, 200_000):
        for name, args in calls:
            told = tools.answer(name, args, harness.call_context(context_length=window))
            assert "error" not in told[:10], told
            assert len(told) <= HOST_SHOWS
            assert estimate_text_tokens(told) <= max(500, min(12_000, window // 3)), (name, args)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
ids = st.from_regex(r"(c\d\.)?[msx]-?\d{0,3}(-m\d{0,3})?", fullmatch=True)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from([*NAMES[1:], "other"]),
    args=st.dictionaries(
        st.sampled_from(["id", "ids", "page", "max_tokens", "question", "originals", "raw", "odd"]),
        json_values | ids,
        max_size=4,
    ),
)
def test_whatever_a_model_calls_it_gets_text(
    harness: LcmToolsHarness, name: str, args: dict[str, object]
) -> None:
    """An error says so in JSON; none of them is about a fault of ours."""
    told = tools.answer(name, args, harness.call_context())
    assert isinstance(told, str) and told
    assert "could not be read" not in told
