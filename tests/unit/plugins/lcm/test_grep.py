"""`lcm_grep` as a model calls it: what comes back, in which order, within which bounds, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.tokens import estimate_text_tokens
from plugins.context_engine.lcm import tools
from tests.support.lcm_tools_harness import LcmToolsHarness, assistant, fill_history, opened, summary, user


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LcmToolsHarness]:
    with opened(tmp_path / "home") as made:
        yield made


def grep(harness: LcmToolsHarness, query: str, **args: Any) -> str:
    return harness.call("lcm_grep", query=query, **args)


def ids(text: str) -> list[str]:
    """Ids of the messages, in order."""
    return re.findall(r"^((?:c\d+\.)?m\d+) ", text, re.MULTILINE)


def error(text: str) -> str:
    said: str = json.loads(text)["error"]
    return said


def test_a_question_finds_the_answer_beside_its_words(harness: LcmToolsHarness) -> None:
    """The message that answers shares no word with the question; the one before it does."""
    chatter = [user(f"The weather is fine, number {n}.") for n in range(20)]
    harness.say(
        *chatter, user("Which restaurant did we book for Oslo?"), assistant("Maaemo, at eight."), *chatter
    )
    shown = grep(harness, "What restaurant was booked in Oslo?", limit=2)
    assert ids(shown) == ["m21", "m22"]
    assert "Maaemo, at eight." in shown


def test_the_inflection_of_a_word_does_not_matter(harness: LcmToolsHarness) -> None:
    harness.say(user("We were painting fences."), *(user(f"Nothing {n}.") for n in range(9)))
    assert ids(grep(harness, "painted fence", limit=1)) == ["m1"]


def test_hits_stand_under_the_summary_that_covers_them(harness: LcmToolsHarness) -> None:
    """In the context, below a summary, and elsewhere: each says so."""
    fill_history(harness)
    shown = grep(harness, "trains", mode="all")
    lines = shown.splitlines()
    assert "s1 2026-02-02" in lines
    assert lines[lines.index("s1 2026-02-02") + 1].startswith("m1 u: Question 1")
    assert lines[lines.index("in your context") + 1].startswith("m9 ")
    undone = next(number for number, line in enumerate(lines) if line.startswith("elsewhere"))
    assert lines[undone + 1].startswith("m11 ")


def test_a_summary_that_left_the_context_is_marked_as_elsewhere(harness: LcmToolsHarness) -> None:
    said = harness.say(*(user(f"Trains {n}") for n in range(4)))
    harness.leaf(said[:2], summary("Trains."))
    harness.show(*said[2:3])
    shown = grep(harness, "trains")
    assert re.search(r"^s1 \S+ \(elsewhere", shown, re.MULTILINE)


def test_the_best_group_comes_first_and_each_is_in_order(harness: LcmToolsHarness) -> None:
    said = harness.say(
        *(user(f"About nothing {n}.") for n in range(10)),
        user("A red bicycle."),
        *(user(f"About nothing {n} again.") for n in range(10)),
        user("The brakes of the red bicycle squeak."),
        user("Yes."),
    )
    first = harness.leaf(said[:12], summary("One."))
    second = harness.leaf(said[12:], summary("Two."))
    harness.show(first, second)
    shown = grep(harness, "red bicycle brakes")
    assert shown.index(f"\n{second.id} ") < shown.index(f"\n{first.id} ")
    within = [
        int(name[1:]) for name in ids(shown[shown.index(f"\n{second.id} ") : shown.index(f"\n{first.id} ")])
    ]
    assert within == sorted(within)


def test_pages_show_everything_once_and_stay_within_their_tokens(harness: LcmToolsHarness) -> None:
    harness.say(*(user(f"Apples and pears, basket {n}: " + "fruit " * (n % 30)) for n in range(150)))
    seen: list[str] = []
    for page in range(1, 100):
        shown = grep(harness, "apples", mode="all", page=page, max_tokens=600)
        assert estimate_text_tokens(shown) <= 600
        seen += ids(shown)
        if f"page={page + 1}" not in shown:
            break
    assert sorted(seen) == sorted(f"m{n}" for n in range(1, 151))
    assert f"page {page} is the last one" in error(
        grep(harness, "apples", mode="all", page=page + 1, max_tokens=600)
    )


def test_the_usual_result_is_2000_tokens_and_nearly_full(harness: LcmToolsHarness) -> None:
    harness.say(*(user(f"Apples, basket {n}, are sold on the market square.") for n in range(300)))
    assert 1_900 <= estimate_text_tokens(grep(harness, "apples")) <= 2_000


def test_in_a_small_window_the_result_is_a_third_of_it(harness: LcmToolsHarness) -> None:
    harness.say(*(user(f"Apples, basket {n}.") for n in range(300)))
    call = harness.call_context(context_length=3_000)
    shown = tools.answer("lcm_grep", {"query": "apples"}, call)
    assert 700 <= estimate_text_tokens(shown) <= 1_000


def test_a_long_message_is_shown_around_the_words(harness: LcmToolsHarness) -> None:
    filler = "There is nothing to see in this sentence. " * 200
    harness.say(assistant(f"{filler}The password of the printer is swordfish. {filler}"))
    shown = grep(harness, "printer password")
    assert "The password of the printer is swordfish." in shown
    assert "…" in shown
    assert estimate_text_tokens(shown) < 200


def test_a_sentence_without_end_is_cut_around_the_word(harness: LcmToolsHarness) -> None:
    harness.say(
        {"role": "tool", "tool_call_id": "x", "content": "lorem " * 3_000 + "swordfish " + "ipsum " * 3_000}
    )
    shown = grep(harness, "swordfish")
    assert "swordfish" in shown
    assert estimate_text_tokens(shown) < 200


def test_a_phrase_needs_its_words_in_order(harness: LcmToolsHarness) -> None:
    harness.say(user("the red house"), user("the house is red"), user("a Red, house!"))
    assert ids(grep(harness, "red house", mode="phrase")) == ["m1", "m3"]


def test_all_words_must_be_there_but_those_that_say_nothing(harness: LcmToolsHarness) -> None:
    harness.say(user("red house"), user("a house on a red hill"), user("red"))
    assert ids(grep(harness, "the red house", mode="all")) == ["m1", "m2"]


def test_a_pattern_finds_what_words_cannot(harness: LcmToolsHarness) -> None:
    harness.say(user("Order ORD-00417 is late."), user("Order of the day"), user("ord-12"))
    assert ids(grep(harness, r"\bORD-\d{5}\b", mode="regex")) == ["m1"]


def test_a_pattern_sees_the_calls_of_tools(harness: LcmToolsHarness) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": '{"iban": "DE44"}'}}
    harness.say(assistant(None, tool_calls=[call]))
    assert "[calls pay" in grep(harness, "iban.*DE", mode="regex")


def test_a_pattern_that_would_never_end_is_stopped(harness: LcmToolsHarness) -> None:
    harness.say(user("a" * 60 + "b"))
    assert "takes too long" in error(grep(harness, r"(?:a|aa)+$", mode="regex"))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"query": "(", "mode": "regex"}, "is not a regular expression"),
        ({"query": "((a{900}){900}){900}", "mode": "regex"}, "repeats things more than"),
        ({"query": "x" * 501, "mode": "regex"}, "longer than 500"),
        ({"query": "x", "since": "yesterday"}, "`since` must be a date like"),
        ({"query": "x", "since": "2026-03-02", "until": "2026-03-01"}, "`since` is later than `until`"),
        ({"query": "x", "mode": "fuzzy"}, "`mode` cannot be"),
        ({"query": "  "}, "`query` is empty"),
        ({"query": "x", "role": "system"}, "`role` cannot be"),
        ({"query": "x", "limit": 0}, "`limit` must be 1 or more"),
    ],
)
def test_what_is_not_understood_is_a_sentence(
    harness: LcmToolsHarness, args: dict[str, Any], said: str
) -> None:
    harness.say(user("x"))
    assert said in error(harness.call("lcm_grep", **args))


def test_role_and_time_bound_the_hits(harness: LcmToolsHarness) -> None:
    """One message a minute from 2026-02-02 02:40 UTC on."""
    harness.say(*(each(f"apples {n}") for n in range(5) for each in (user, assistant)))
    assert ids(grep(harness, "apples", role="user", mode="all")) == ["m1", "m3", "m5", "m7", "m9"]
    assert ids(grep(harness, "apples", role="assistant")) == ["m2", "m4", "m6", "m8", "m10"]
    for mode in ("natural", "phrase", "all", "regex"):
        found = grep(harness, "apples", since="2026-02-02T02:42", until="2026-02-02T02:45:00Z", mode=mode)
        assert sorted(ids(found)) == ["m3", "m4", "m5"]
    assert len(ids(grep(harness, "apples", until="2026-02-02"))) == 10
    assert "leave out until" in grep(harness, "apples", until="2026-02-01")


@pytest.mark.parametrize("mode", ["natural", "phrase", "all", "regex"])
@pytest.mark.parametrize(
    ("bounds", "count"),
    [
        ({"until": "9999-12-31"}, 2),
        ({"until": "9999-12-31T23:59:59.999999-23:59"}, 2),
        ({"until": "9999-W52-5"}, 2),
        ({"since": "0001-01-01"}, 2),
        ({"since": "0001-01-01T00:00+23:59", "until": "9999-12-31"}, 2),
        ({"since": "9999-12-31", "until": "9999-12-31"}, 0),
        ({"until": "0001-01-01"}, 0),
        ({"since": "20260202", "until": "20260202"}, 2),
        ({"since": "2026-02-02T03:40+01:00", "until": "2026-02-02T03:41+01:00"}, 1),
        ({"since": "2026-02-01T21:41-05:00"}, 1),
    ],
)
def test_any_date_that_there_is_bounds_the_hits(
    harness: LcmToolsHarness, bounds: dict[str, str], count: int, mode: str
) -> None:
    """Models write the last day there is where they mean no end."""
    harness.say(user("apples"), user("apples again"))
    assert len(ids(grep(harness, "apples", mode=mode, **bounds))) == count


@pytest.mark.parametrize(
    "written",
    [
        *("0000-01-01", "10000-01-01", "2026-02-30", "2026-13-01", "2026-03-01T25:00"),
        *("2026-03-01T10:00+24:00", " ", "\ud800", "x" * 5_000),
    ],
)
def test_what_is_no_date_is_a_sentence(harness: LcmToolsHarness, written: str) -> None:
    harness.say(user("apples"))
    for name in ("since", "until"):
        assert f"`{name}` must be a date like" in error(grep(harness, "apples", **{name: written}))


def test_other_conversations_only_of_this_person_and_only_on_request(harness: LcmToolsHarness) -> None:
    harness.say(user("apples here"))
    harness.say(user("apples there"), conversation="there")
    harness.say(user("apples of another"), conversation="foreign", person="bob")
    assert ids(grep(harness, "apples")) == ["m1"]
    for mode in ("natural", "phrase", "all", "regex"):
        assert sorted(ids(grep(harness, "apples", everywhere=True, mode=mode))) == ["c2.m1", "m1"]


def test_the_neighbours_of_a_hit_on_request(harness: LcmToolsHarness) -> None:
    harness.say(
        *(user(f"number {n}") for n in range(10)), user("apples"), *(user(f"number {n}!") for n in range(9))
    )
    assert ids(grep(harness, "apples", mode="all", context=2)) == ["m9", "m10", "m11", "m12", "m13"]


def test_nothing_found_says_what_to_try(harness: LcmToolsHarness) -> None:
    harness.say(user("apples"))
    assert "other words" in grep(harness, "zebra")
    assert "everywhere=true" in grep(harness, "zebra")
    assert "fewer words" in grep(harness, "apples zebra", mode="all")


def test_before_anything_is_stored_nothing_is_found(harness: LcmToolsHarness) -> None:
    assert grep(harness, "apples").startswith("Nothing found.")


def test_chinese_words_of_two_characters_are_found(harness: LcmToolsHarness) -> None:
    harness.say(
        *(user(f"今天天气很好{n}") for n in range(8)), user("我们在北京吃了烤鸭"), assistant("很好吃")
    )
    assert ids(grep(harness, "北京的烤鸭怎么样", limit=1)) == ["m9"]
    assert ids(grep(harness, "烤鸭", mode="phrase")) == ["m9"]


@pytest.mark.parametrize(
    "query", ['"', "x\0y", "\ud800", "AND OR NOT", "body:x", "a*", "-", "😀", '"" ""', "(", "^x"]
)
@pytest.mark.parametrize("mode", ["natural", "phrase", "all"])
def test_any_text_is_a_query(harness: LcmToolsHarness, query: str, mode: str) -> None:
    harness.say(user("something"))
    assert not grep(harness, query, mode=mode).startswith("{")


def test_the_same_question_has_the_same_answer(harness: LcmToolsHarness) -> None:
    harness.say(*(user(f"apples and pears {n % 7}") for n in range(80)))
    assert len({grep(harness, "pears with apples 3") for _ in range(3)}) == 1


def test_names_of_people_stand_once(harness: LcmToolsHarness) -> None:
    harness.say(user("Anna: apples", name="Anna"), user("apples too", name="Bob"))
    shown = grep(harness, "apples", mode="all")
    assert "m1 2026-02-02 u: Anna: apples" in shown
    assert "m2 u Bob: apples too" in shown
