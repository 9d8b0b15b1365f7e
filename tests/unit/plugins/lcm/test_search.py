"""Ranking of hits, and matches for hints."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from plugins.context_engine.lcm.messages import NewMessage, add_messages, conversation_key
from plugins.context_engine.lcm.search import search
from plugins.context_engine.lcm.search.exact import regex_search
from plugins.context_engine.lcm.search.ranked import Weights, ranked_search, strong_matches
from plugins.context_engine.lcm.search.request import Days, SearchRequest, SearchResult, days_in
from tests.support.lcm_tools_harness import LcmToolsHarness, assistant, opened, user

MAY, JUNE = (datetime(2023, month, 12, tzinfo=UTC).timestamp() for month in (5, 6))


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LcmToolsHarness]:
    with opened(tmp_path / "home") as made:
        yield made


def found(harness: LcmToolsHarness, text: str, **more: object) -> list[int]:
    """Numbers of the messages, best first."""
    with harness.database.reading() as connection:
        return [hit.seq for hit in search(connection, SearchRequest([1], text, **more)).hits]  # type: ignore[arg-type]


def test_whose_message_it_is_counts_if_the_question_names_somebody(harness: LcmToolsHarness) -> None:
    harness.say(
        *(each for n in range(6) for each in (user(f"Anna: so {n}"), assistant(f"Bob: well {n}"))),
        user("Anna: I like my bicycle."),
        assistant("Bob: I like my bicycle."),
        *(each for n in range(6) for each in (user(f"Anna: then {n}"), assistant(f"Bob: there {n}"))),
    )
    assert found(harness, "What does Bob like, a bicycle?")[0] == 14
    assert found(harness, "What does Anna like, a bicycle?")[0] == 13


def test_a_rare_word_says_more_than_a_frequent_one(harness: LcmToolsHarness) -> None:
    far = [user("market day") for _ in range(12)]
    harness.say(user("zebra"), *far, user("market"), *far)
    assert found(harness, "zebra market")[0] == 1


def test_days_in_the_question_raise_what_was_said_around_them(harness: LcmToolsHarness) -> None:
    """Both say the same; the month tells them apart, and neither says it."""
    with harness.database.writing() as connection:
        here = conversation_key(connection, "here", person="ada", now=0.0)
        times = [MAY] * 20 + [JUNE] * 20
        chats = [user("We went sailing." if n in (10, 30) else f"Filler {n}.") for n in range(40)]
        add_messages(
            connection,
            here,
            [NewMessage(f"i{n}", c, t) for n, (c, t) in enumerate(zip(chats, times, strict=True))],
        )
    assert found(harness, "Where did they go sailing in May 2023?")[0] == 11
    assert found(harness, "Where did they go sailing in June 2023?")[0] == 31
    assert found(harness, "sailing on 2023-06-12")[0] == 31
    assert found(harness, "What happened on 2023-05-12?") == list(range(1, 21)), (
        "no word to go by but the day"
    )


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("on 7 July, 2023", [Days(7, 7, 2023)]),
        ("on July 7th", [Days(7, 7)]),
        ("in June 2023", [Days(6, None, 2023)]),
        ("in june", [Days(6)]),
        ("the 3rd of May", [Days(5, 3)]),
        ("since 2023-06-12", [Days(6, 12, 2023)]),
        ("You may march on", []),
        ("2023-13-40 and June 77", [Days(6)]),
    ],
)
def test_days_are_read(text: str, days: list[Days]) -> None:
    assert days_in(text) == days


@pytest.mark.parametrize("days", [Days(2, 31), Days(2, 29, 2023), Days(12, 31), Days(1, 1, 1900)])
def test_days_that_do_not_exist_do_no_harm(days: Days) -> None:
    days.includes(datetime(1, 1, 2, tzinfo=UTC))
    days.includes(datetime(9999, 12, 31, tzinfo=UTC))


def test_a_word_that_nearly_everything_has_is_left_out(harness: LcmToolsHarness) -> None:
    """Looking at all of them would take long, and they would say little."""
    harness.say(
        *(user(f"market {n}") for n in range(40)), user("zebra"), *(user(f"market {n}.") for n in range(40))
    )
    few = Weights(max_postings=10, window=())
    with harness.database.reading() as connection:
        hits = ranked_search(connection, SearchRequest([1], "zebra market"), few).hits
        assert [hit.seq for hit in hits] == [41]
        assert ranked_search(connection, SearchRequest([1], "market"), few).hits, (
            "with no other word it has to do"
        )


def test_only_so_many_messages_are_looked_at_closely(harness: LcmToolsHarness) -> None:
    harness.say(*(user(f"apples {n}") for n in range(300)))
    few = Weights(max_anchors=5, window=())
    with harness.database.reading() as connection:
        hits = ranked_search(connection, SearchRequest([1], "apples"), few).hits
    assert [hit.seq for hit in hits] == [300, 299, 298, 297, 296]


def test_a_search_for_a_pattern_that_runs_out_of_time_says_where(harness: LcmToolsHarness) -> None:
    said = harness.say(*(user("apples") for _ in range(20)))
    with harness.database.reading() as connection:
        stopped: SearchResult = regex_search(connection, SearchRequest([1], "pears", "regex"), seconds=0.0)
        whole = regex_search(connection, SearchRequest([1], "pears", "regex"), seconds=60)
    assert stopped.searched_back_to == said[-1].said_at
    assert whole.searched_back_to is None


REMEMBERED = "We decided to rent the lighthouse near Bergen for the workshop in spring."


@pytest.fixture
def history(harness: LcmToolsHarness) -> LcmToolsHarness:
    chatter = [
        "Thanks a lot, that sounds great!",
        "What do you think?",
        "Okay, let me know.",
        "See you soon!",
    ]
    said = [user(f"{chatter[n % 4]} Number {n}.") for n in range(60)]
    said[20] = user(REMEMBERED)
    harness.say(*said)
    return harness


def reminded(harness: LcmToolsHarness, text: str) -> list[tuple[int, float]]:
    with harness.database.reading() as connection:
        return strong_matches(connection, 1, text, 3)


def test_a_message_reminds_of_what_it_speaks_of(history: LcmToolsHarness) -> None:
    (key, score), *_ = reminded(history, "Which lighthouse near Bergen did we rent for the workshop?")
    assert key == 21
    assert score >= 0.7


@pytest.mark.parametrize(
    "text",
    [
        "ok thanks",
        "what do you think?",
        "Thanks a lot, that sounds great!",
        "See you soon!",
        "",
        "👍",
        "hello",
        "go on",
    ],
)
def test_small_talk_reminds_of_nothing(history: LcmToolsHarness, text: str) -> None:
    assert not [score for _, score in reminded(history, text) if score >= 0.5]


def test_small_talk_is_known_where_it_is_rare(harness: LcmToolsHarness) -> None:
    """Among technical messages the words of a farewell are as rare as any."""
    harness.say(
        *(user(f"Compile module {n} and link it.") for n in range(50)),
        user("Thanks, sounds great, talk soon!"),
    )
    assert not [score for _, score in reminded(harness, "Great, thanks! Talk soon.") if score >= 0.5]


def test_more_words_in_common_are_stronger(history: LcmToolsHarness) -> None:
    (_, one), *_ = reminded(history, "lighthouse")
    (_, two), *_ = reminded(history, "lighthouse Bergen")
    assert one < two


def test_one_word_in_common_is_a_coincidence(history: LcmToolsHarness) -> None:
    text = "Please write a short poem about a lighthouse, a whale and the northern stars."
    assert not [score for _, score in reminded(history, text) if score >= 0.5]
