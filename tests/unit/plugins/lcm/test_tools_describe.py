"""`lcm_describe` and `lcm_status`: what there is, and how it hangs together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from plugins.context_engine.lcm.stats import status
from tests.support.lcm_tools_harness import (
    BEGAN,
    LcmToolsHarness,
    assistant,
    fill_history,
    opened,
    summary,
    user,
)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LcmToolsHarness]:
    with opened(tmp_path) as harness:
        fill_history(harness)
        yield harness


def lines(harness: LcmToolsHarness, **args: str) -> dict[str, str]:
    """The text before and after the first colon of a line."""
    return dict(
        line.split(": ", 1) for line in harness.call("lcm_describe", **args).splitlines() if ": " in line
    )


def test_a_summary_of_summaries(harness: LcmToolsHarness) -> None:
    """Size, range, times, topics, where it stands, and its children with theirs."""
    told = lines(harness, id="s3")
    assert told["s3"].startswith("summary of summaries, depth 1, detailed, ")
    assert told["Messages"] == "8 messages from m1 to m8, 80 tokens"
    assert told["Times"] == "2026-02-02 02:40 - 02:47 UTC"
    assert told["About"] == "all trains"
    assert told["Context"] == "in the present context"
    assert told["Above it"] == "nothing"
    assert told["Below it"].startswith("2 summaries, ")
    assert told["s1"].startswith("depth 0, m1-m4 (4 messages), 2026-02-02 02:40 - 02:43 UTC, ")
    assert told["s1"].endswith("about: trains, Lisbon")


def test_a_summary_of_messages(harness: LcmToolsHarness) -> None:
    """Its parent, and what became of it where no model could be asked."""
    told = lines(harness, id="s2")
    assert "an extract with gaps, no summary could be written yet" in told["s2"]
    assert told["Context"] == "below a summary in the present context"
    assert told["Above it"] == "s3"


@pytest.mark.parametrize(
    ("message", "where", "covered"),
    [
        ("m5", "below a summary in the present context", "s2 (depth 0), s3 (depth 1)"),
        ("m9", "in the present context", "no summary"),
        ("m12", "not in the present context", "no summary"),
    ],
)
def test_a_message(harness: LcmToolsHarness, message: str, where: str, covered: str) -> None:
    """Where it stands, and what covers it from the leaf up."""
    told = lines(harness, id=message)
    assert told[message].startswith("user, 2026-02-02 02:")
    assert told["Context"].startswith(where)
    assert told["Covered by"] == covered


def test_calls_results_and_attachments(harness: LcmToolsHarness) -> None:
    """By name; their contents are for lcm_expand."""
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    harness.say(
        assistant(None, tool_calls=[call]),
        {"role": "tool", "tool_call_id": "call_1", "content": "seen"},
        user(
            [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:x"}}],
            name="Anna",
        ),
    )
    assert "Calls look (call_1), 2 characters" in harness.call("lcm_describe", id="m13")
    assert "Answers the call call_1" in harness.call("lcm_describe", id="m14")
    assert "m15: user Anna, " in harness.call("lcm_describe", id="m15")
    assert "1 attachment: image_url" in harness.call("lcm_describe", id="m15")


def test_a_range(harness: LcmToolsHarness) -> None:
    """Both: the summaries that cover it, and its messages one by one."""
    told = lines(harness, id="m4-m9")
    assert told["m4-m9"] == "6 messages, 60 tokens, 2026-02-02 02:43 - 02:48 UTC"
    assert told["Covered by"] == "2 summaries of messages"
    assert {"s1", "s2"} <= told.keys()
    listed = harness.call("lcm_describe", id="m4-m9").partition("Messages:\n")[2].splitlines()
    assert [line.split()[0] for line in listed] == [f"m{n}" for n in range(4, 10)]
    assert listed[0].endswith("below a summary in the present context")
    assert listed[-1].endswith("in the present context")


def test_without_an_id_the_present_context(harness: LcmToolsHarness) -> None:
    """From old to new: summaries with what they are about, and what is there word for word."""
    told = harness.call("lcm_describe").splitlines()
    assert told[1].startswith("s3: depth 1, m1-m8 (8 messages)")
    assert told[2:] == ["m9-m10: 2 messages, word for word"]


def test_a_context_without_summaries(tmp_path: Path) -> None:
    """There is nothing to expand yet, and that is said; messages with a gap between them are not one range."""
    with opened(tmp_path / "other") as harness:
        said = harness.say(*(user(f"text {n}") for n in range(5)))
        harness.show(said[0], said[1], said[3])
        told = harness.call("lcm_describe").splitlines()
        assert "no summaries" in told[0]
        assert told[1:] == ["m1-m2: 2 messages, word for word", "m4: 1 message, word for word"]


def test_status_counts_what_there_is(harness: LcmToolsHarness) -> None:
    """Where each message is, the summaries by depth, and how much smaller the context is than what it stands for."""
    now = status(harness.call_context())
    assert (now.stored, now.in_context, now.below, now.elsewhere) == (12, 2, 8, 2)
    assert [(each.depth, each.summaries, each.in_context) for each in now.depths] == [(0, 2, 0), (1, 1, 1)]
    assert now.coverage == 10 / 12
    assert now.represented_tokens == 101
    with harness.database.reading() as connection:
        (shown,) = connection.execute("SELECT tokens FROM summaries WHERE key = 3").fetchone()
    assert now.context_tokens == shown + 21
    assert now.ratio == pytest.approx(101 / (shown + 21))
    assert now.fallbacks == 1
    assert now.last is None
    assert now.database_bytes > 10_000


def test_status_in_words(harness: LcmToolsHarness) -> None:
    """Also the last compaction; coverage is never rounded up to everything."""
    harness.sql(
        "INSERT INTO compactions (session, tokens_before, tokens_after, summaries, outcome, seconds, done_at) "
        f"SELECT key, 52000, 21000, 3, 'compacted', 3.25, {BEGAN} FROM sessions",
        "INSERT INTO compactions (session, tokens_before, tokens_after, summaries, outcome, seconds, done_at) "
        f"SELECT key, 61000, 20000, 2, 'stand_in', 1.5, {BEGAN + 3600} FROM sessions",
    )
    told = harness.call("lcm_status")
    assert "In the window: 12,345 of 100,000 tokens (12%), compacted from 50,000 on" in told
    assert "Messages: 12 stored; 2 in the context, 8 below summaries in it, 2 elsewhere" in told
    assert "Depth 0: 2 summaries" in told
    assert "Coverage: 83.3% of the messages" in told
    assert (
        "Last compaction: 2026-02-02 03:40 UTC, 61,000 -> 20,000 tokens in 1.5 s (stand_in); 2 in all" in told
    )
    assert "Extracts that wait for a summary: 1" in told


def test_status_knows_only_its_own_conversation(harness: LcmToolsHarness) -> None:
    """Others' messages, summaries and compactions are not counted, even under the same session's name."""
    before = status(harness.call_context())
    said = harness.say(*(user("theirs") for _ in range(5)), conversation="theirs", person="eve")
    node = harness.leaf(said[:2], summary("Theirs.", level="stand_in"), "theirs")
    harness.show(node, *said[2:], conversation="theirs")
    harness.sql(
        "INSERT INTO compactions (session, tokens_before, tokens_after, summaries, outcome, seconds, done_at) "
        "SELECT max(key), 9, 8, 1, 'compacted', 1.0, 0.0 FROM sessions"
    )
    after = status(harness.call_context())
    assert (after.stored, after.in_context, after.below) == (12, 2, 8)
    assert (after.depths, after.fallbacks, after.compactions) == (before.depths, 1, 0)


def test_status_of_a_session_that_was_not_seen_yet(harness: LcmToolsHarness) -> None:
    """After /new, say. It does not pass the old context off as the present one."""
    now = status(harness.call_context(session="new"))
    assert not now.session_seen
    assert (now.in_context, now.below, now.elsewhere) == (0, 0, 12)
