"""The checks of the store: each finds what it is for, and nothing else does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from plugins.context_engine.lcm.database import connect
from plugins.context_engine.lcm.integrity import CHECKS, Problem, check
from plugins.context_engine.lcm.messages import messages_between
from tests.support.lcm_tools_harness import LcmToolsHarness, fill_history, opened, summary, user

TWO_COMPACTIONS = (
    "INSERT INTO compactions (session, tokens_before, tokens_after, summaries, outcome, seconds, done_at) "
    "VALUES (1, 2, 1, 1, 'ok', 1, 9e9), (1, 2, 1, 1, 'ok', 1, 9e9)"
)

WITHOUT_RULES = "CREATE TABLE other AS SELECT * FROM {0}; DROP TABLE {0}; ALTER TABLE other RENAME TO {0}"
"""A table with the same rows, and without what keeps wrong ones out."""


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LcmToolsHarness]:
    """Of another person there is a conversation as well."""
    with opened(tmp_path) as harness:
        fill_history(harness)
        said = harness.say(*(user(f"theirs {n}") for n in range(4)), conversation="theirs", person="eve")
        harness.show(harness.leaf(said[:2], summary("Theirs."), "theirs"), *said[2:], conversation="theirs")
        yield harness


def problems(harness: LcmToolsHarness, conversation: int | None = None) -> list[Problem]:
    with harness.database.reading() as connection:
        return check(connection, conversation)


def failed(harness: LcmToolsHarness, conversation: int | None = None) -> set[str]:
    return {problem.check for problem in problems(harness, conversation)}


def without_rules(harness: LcmToolsHarness, table: str) -> None:
    harness.sql(*WITHOUT_RULES.format(table).split("; "))


def test_a_good_store_passes(harness: LcmToolsHarness) -> None:
    """All together, and each conversation; there are the eight checks, and two of the file."""
    assert [problems(harness, each) for each in (None, 1, 2)] == [[], [], []]
    assert len(CHECKS) == 10
    assert "All is well: 10 checks" in harness.call("lcm_doctor")


COUNTS = ("source_tokens", "message_tokens", "message_count", "first_seq", "last_seq")
DAMAGE = [
    ("conversation exists", "DELETE FROM conversations WHERE key = 1"),
    ("context positions", "UPDATE context_items SET position = 7 WHERE session = 1 AND position = 2"),
    ("context positions", "UPDATE context_items SET position = position + 10 WHERE session = 1"),
    # A message and a summary that do not exist, and ones of another person.
    ("references", "UPDATE context_items SET message = 999 WHERE session = 1 AND position = 2"),
    ("references", "UPDATE context_items SET message = 16 WHERE session = 1 AND position = 2"),
    ("references", "INSERT INTO context_items (session, position, summary) VALUES (1, 3, 4)"),
    ("references", "INSERT INTO context_items (session, position, summary) VALUES (1, 3, 99)"),
    (
        "references",
        "INSERT INTO written (conversation, fingerprint, kind, message) VALUES (1, 'x', 'copy', 999)",
    ),
    ("sources", "UPDATE summaries SET depth = 2 WHERE key = 3"),
    ("sources", "DELETE FROM summary_messages WHERE summary = 1"),
    ("sources", "DELETE FROM summary_children WHERE parent = 3; UPDATE context_items SET summary = 1 WHERE summary = 3;"
     "INSERT INTO context_items (session, position, summary) VALUES (1, 3, 2), (1, 4, 3)"),
    ("orphan summaries", f"DELETE FROM context_items WHERE session = 1; {TWO_COMPACTIONS}"),
    ("token counts", "UPDATE summaries SET tokens = 900 WHERE key = 3"),
    ("token counts", "UPDATE summaries SET content = '' WHERE key = 1; UPDATE summaries SET tokens = 500, "
     "topics = '' WHERE key = 1; UPDATE summaries SET source_tokens = 500 + "
     "(SELECT tokens FROM summaries WHERE key = 2) WHERE key = 3"),
    *(
        ("token counts", f"UPDATE summaries SET {column} = {column} + 1 WHERE key = 3")
        for column in (*COUNTS, "earliest", "latest")
    ),
    ("token counts", "UPDATE summaries SET message_count = 5 WHERE key = 1"),
    ("message sequence", "UPDATE messages SET seq = 15 WHERE conversation = 1 AND seq = 12"),
    ("message sequence", "DELETE FROM messages WHERE conversation = 1 AND seq = 11"),
    ("duplicate references", "INSERT INTO context_items (session, position, message) VALUES (1, 3, 10)"),
    ("duplicate references", "INSERT INTO context_items (session, position, message) VALUES (1, 3, 2)"),
    ("duplicate references", "INSERT INTO context_items (session, position, summary) VALUES (1, 3, 3)"),
    ("duplicate references", "INSERT INTO context_items (session, position, summary) VALUES (1, 3, 1)"),
    ("word index", "INSERT INTO message_words (message_words, rowid, scope, body) "
     "VALUES ('delete', 5, 'c1', 'Question 5 about trains.')"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "damage"), DAMAGE, ids=[f"{name} {n}" for n, (name, _) in enumerate(DAMAGE)]
)
def test_damage_is_found_by_its_check_alone(harness: LcmToolsHarness, name: str, damage: str) -> None:
    """In the conversation that has it and in a check of everything; the other conversation is still well."""
    harness.sql(*damage.split(";"))
    assert failed(harness) == {name}
    assert failed(harness, 1) == {name}
    assert problems(harness, 2) == []


def test_a_source_twice(harness: LcmToolsHarness) -> None:
    """Where the schema's own rule is gone."""
    without_rules(harness, "summary_messages")
    harness.sql(
        "INSERT INTO summary_messages (summary, position, message) VALUES (1, 9, 2)",
        "UPDATE summaries SET source_tokens = source_tokens + 10, message_tokens = message_tokens + 10, "
        "message_count = message_count + 1 WHERE key = 1",
        "UPDATE summaries SET message_tokens = message_tokens + 10, message_count = message_count + 1 WHERE key = 3",
    )
    assert failed(harness, 1) == {"duplicate references"}


def test_summaries_in_one_context_that_share_a_message(harness: LcmToolsHarness) -> None:
    """In different contexts they may: after a branch, the same messages are summarised in other pieces."""
    with harness.database.reading() as connection:
        overlapping = messages_between(connection, 1, 8, 9)
    other = harness.leaf(overlapping, summary("Overlaps."))
    harness.show(other, session="branch")
    assert failed(harness) == set()
    harness.sql(
        "DELETE FROM context_items WHERE session = 1 AND position = 1",
        "UPDATE context_items SET position = 1 WHERE session = 1 AND position = 2",
        f"INSERT INTO context_items (session, position, summary) VALUES (1, 2, {other.key})",
    )
    assert failed(harness, 1) == {"duplicate references"}


def test_what_the_last_two_compactions_made_is_no_orphan(harness: LcmToolsHarness) -> None:
    """It is written before a context shows it. One that a record shows may come back with that."""
    harness.sql("DELETE FROM context_items WHERE session = 1")
    assert problems(harness) == []
    harness.sql(TWO_COMPACTIONS)
    assert [problem.what for problem in problems(harness)] == [
        "Summary s3 is in no context and below no other summary."
    ]
    harness.sql(
        "INSERT INTO written (key, conversation, fingerprint, kind) VALUES (1, 1, 'x', 'record')",
        "INSERT INTO written_summaries (written, position, summary) VALUES (1, 0, 3)",
    )
    assert problems(harness) == []


def test_what_belongs_to_nothing(harness: LcmToolsHarness) -> None:
    """Rows whose owner is gone belong to no conversation, so only a check of everything sees them."""
    harness.sql("INSERT INTO context_items (session, position, message) VALUES (77, 0, 1)")
    assert failed(harness) == {"references"}
    assert problems(harness, 1) == []


def test_a_page_of_the_file_that_was_overwritten(harness: LcmToolsHarness) -> None:
    """SQLite's own check finds what none of the others looks at; for a large file it can be left out."""
    harness.close()
    harness.sql("PRAGMA journal_mode = DELETE")
    with closing(connect(harness.database.path)) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'conversations_person'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    harness.sql("PRAGMA journal_mode = DELETE")
    data = harness.database.path.read_bytes()
    index = data[(page - 1) * size : page * size]
    harness.database.path.write_bytes(data.replace(index, index.replace(b"eve", b"evf")))
    assert failed(harness) == {"database file"}
    assert "`hermes restore`" in harness.call("lcm_doctor")
    with harness.database.reading() as connection:
        assert check(connection, file=False) == []


def test_the_doctor_tells_this_conversation_in_words(harness: LcmToolsHarness) -> None:
    """What is wrong, how often, and what to do; nothing of what was said, and nothing of others."""
    harness.sql("UPDATE summaries SET tokens = 900", "DELETE FROM summary_messages WHERE summary = 4")
    told = harness.call("lcm_doctor")
    assert told.startswith("1 of 10 checks found something:\n- token counts: Summary s1 counts 900 tokens")
    assert "Nothing is lost, and nothing needs to be done" in told
    assert "s4" not in told and "trains" not in told


def test_much_damage_is_told_briefly(harness: LcmToolsHarness) -> None:
    """The first few, and how many there are."""
    harness.sql("UPDATE context_items SET message = 1000 + position, summary = NULL WHERE session = 1")
    for position in range(3, 40):
        harness.sql(
            f"INSERT INTO context_items (session, position, message) VALUES (1, {position}, {9000 + position})"
        )
    found = [problem.what for problem in problems(harness, 1) if problem.check == "references"]
    assert len(found) == 6
    assert found[-1] == "And 35 more of this kind."
