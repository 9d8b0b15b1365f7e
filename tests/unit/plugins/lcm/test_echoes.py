"""Echoes: what the engine's own tools were asked and answered is no source. Call ids mean nothing beyond a group."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent.fts_text import indexable
from plugins.context_engine.lcm.database import FILE_NAME, connect
from plugins.context_engine.lcm.messages import message_from_row, scope_of, searchable_text
from plugins.context_engine.lcm.search.semantic import is_installed
from tests.support.histories import Chat, assistant, calls, result, user
from tests.support.lcm_chats import Host, vectors_are_right


def turns_numbered_from_zero() -> list[Chat]:
    """As some models do it: each turn's first call is `call_0`."""
    return [
        user("What did I say about the heron?"),
        calls(("lcm_grep", '{"query": "heron"}')),
        result("m1 user: my heron lives at the weir"),
        assistant("It lives at the weir."),
        user("Look into the report."),
        calls(("read_file", '{"path": "turnstile.txt"}')),
        result("The turnstile counted 4711 visitors."),
        assistant("It has a number of visitors."),
    ]


def searches(host: Host) -> dict[str, str]:
    return {
        mode: host.tool("lcm_grep", query="turnstile", mode=mode)
        for mode in ("natural", "all", "phrase", "regex")
    }


def test_a_result_belongs_to_the_nearest_call_before_it(tmp_path: Path) -> None:
    """Results of other tools are found in every way of searching; those of our own are not."""
    host = Host(tmp_path, 32_000)
    host.say(*turns_numbered_from_zero())
    host.say(user("And now?"))
    for mode, found in searches(host).items():
        assert "4711" in found, mode
        assert "turnstile.txt" in found, mode
    assert "lives at the weir" not in host.tool("lcm_grep", query="m1 user", mode="phrase")
    host.close()


@pytest.mark.parametrize("order", [("lcm_grep", "read_file"), ("read_file", "lcm_grep")])
def test_two_calls_with_one_id_in_one_message(tmp_path: Path, order: tuple[str, str]) -> None:
    """Nobody can tell which result is whose, so none is taken for an echo."""
    both = calls((order[0], "{}"), (order[1], "{}"))
    for call in both["tool_calls"]:
        call["id"] = "call_0"
    host = Host(tmp_path, 32_000)
    host.say(user("Both."), both, result("quarry one"), result("quarry two"), user("And?"))
    assert "quarry two" in host.tool("lcm_grep", query="quarry", mode="all")
    host.close()


def test_what_was_lost_can_be_found_again(tmp_path: Path) -> None:
    """A database of an earlier version is mended when it is opened: words, patterns and meanings."""
    host = Host(tmp_path, 32_000)
    host.say(*turns_numbered_from_zero(), user("And now?"))
    searches(host)
    host.close()
    as_it_was_written_before(tmp_path / FILE_NAME)
    host.restart()
    for mode, found in searches(host).items():
        assert "4711" in found, mode
    assert "lives at the weir" not in host.tool("lcm_grep", query="m1 user", mode="phrase")
    assert "All is well" in host.tool("lcm_doctor")
    assert not is_installed() or vectors_are_right(tmp_path) > 0
    host.close()


def as_it_was_written_before(path: Path) -> None:
    """Schema 2, where every later `call_0` was an echo: hidden, without words and without a meaning."""
    with closing(connect(path)) as connection:
        connection.execute("DROP TRIGGER messages_are_not_updated")
        for key, scope, body in hidden(connection):
            connection.execute(
                "INSERT INTO message_words (message_words, rowid, scope, body) VALUES ('delete', ?, ?, ?)",
                (key, scope, body),
            )
            connection.execute(
                "INSERT INTO message_words (rowid, scope, body) VALUES (?, ?, '')", (key, scope)
            )
            connection.execute("UPDATE messages SET echo = 1 WHERE key = ?", (key,))
        connection.execute(
            "CREATE TRIGGER messages_are_not_updated BEFORE UPDATE ON messages "
            "BEGIN SELECT RAISE(ABORT, 'a message is never changed'); END"
        )
        connection.execute("PRAGMA application_id = 0")
        connection.execute("PRAGMA user_version = 2")


def hidden(connection: sqlite3.Connection) -> list[tuple[int, str, str]]:
    rows = connection.execute(
        "SELECT * FROM messages WHERE rest LIKE '%call_0%' AND NOT echo ORDER BY seq"
    ).fetchall()
    assert len(rows) == 2
    return [
        (row["key"], scope_of(row["conversation"]), indexable(searchable_text(message_from_row(row).chat)))
        for row in rows
    ]
