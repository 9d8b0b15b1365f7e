"""Every message is stored once, also where the host changes its list."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.histories import assistant, calls, chat, group, result, user
from tests.support.lcm_chats import Chat, Host, plain_chat, stored_in

WITH_AND_WITHOUT_IDS = pytest.mark.parametrize("with_ids", [True, False], ids=["ids", "no ids"])


def all_said(host: Host) -> list[Chat]:
    return [plain_chat(each) for each in host.said]


@WITH_AND_WITHOUT_IDS
def test_each_message_is_stored_as_it_was_said(tmp_path: Path, with_ids: bool) -> None:
    """Text, calls, results, names, pictures, nothing at all, and what UTF-8 cannot hold."""
    host = Host(tmp_path, 100_000, with_ids=with_ids)
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    host.say(
        {"role": "user", "content": "zero \0 byte, half a pair \ud83d, naïve 漢字\r\n\ttail ", "name": "ada"},
        calls(("look", '{"at": "it"}'), ("look", "broken json")),
        result("", "call_0"),
        result("x" * 1000, "call_1"),
        {"role": "user", "content": [{"type": "text", "text": "see"}, picture]},
    )
    host.look()
    assert stored_in(tmp_path) == all_said(host)


@WITH_AND_WITHOUT_IDS
def test_seen_again_is_not_stored_again(tmp_path: Path, with_ids: bool) -> None:
    """Before each call, after a restart, and at the end; also where somebody says the same thing twice."""
    host = Host(tmp_path, 100_000, with_ids=with_ids)
    for _ in range(3):
        host.say(user("ok"), assistant("Good."))
        host.look()
        host.restart()
        host.look()
    host.close()
    assert stored_in(tmp_path) == all_said(host)


@WITH_AND_WITHOUT_IDS
def test_compacted_again_and_again(tmp_path: Path, with_ids: bool) -> None:
    """What was compacted, shortened or summarised is not taken for something new."""
    host = Host(tmp_path, 4_000, with_ids=with_ids)
    for number in range(6):
        host.say(user("ok"), *chat(6, words=120)[1:])
        host.say(*group("read", '{"page": 1}', f"page {number} " * 900, f"c{number}"), assistant("Read."))
        host.compress()
        host.restart()
    assert host.engine.compress(host.messages) is not None
    assert stored_in(tmp_path) == all_said(host)


@WITH_AND_WITHOUT_IDS
def test_a_branch_shares_what_came_before_it(tmp_path: Path, with_ids: bool) -> None:
    """And an undo takes nothing away."""
    host = Host(tmp_path, 4_000, with_ids=with_ids)
    host.say(*chat(10, words=100)[1:])
    host.look()
    common = list(host.messages)
    host.say(user("left"), assistant("gone"))
    host.look()
    host.branch(common)
    host.say(user("right"), assistant("there"))
    host.compress()
    host.branch(common)
    host.look()
    assert stored_in(tmp_path) == all_said(host)


def test_conversations_at_once(tmp_path: Path) -> None:
    """In one file; each has its own messages, and their numbers have no gaps."""
    hosts = [Host(tmp_path, 3_000, conversation=f"chat-{number}") for number in range(6)]

    def talk(host: Host) -> None:
        for turn in range(12):
            host.say(user(f"{host.conversation} says {turn} " * 30), assistant("yes " * 40))
            host.look()
            if turn % 4 == 3:
                host.compress()
        host.close()

    threads = [threading.Thread(target=talk, args=(host,)) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for host in hosts:
        assert stored_in(tmp_path, host.conversation) == all_said(host)


texts = st.one_of(st.just("ok"), st.text(max_size=30), st.integers(1, 400).map(lambda n: f"word{n} " * n))
steps = st.one_of(
    st.tuples(st.just("say"), texts),
    st.tuples(st.just("tool"), texts),
    st.tuples(st.sampled_from(["look", "restart", "compress", "undo", "branch"]), st.just("")),
)


@pytest.mark.parametrize("with_ids", [True, False], ids=["ids", "no ids"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, with_ids: bool, data: st.DataObject
) -> None:
    """Replay, restart, compaction, undo and branch in any order: no message twice, none lost, the graph whole."""
    home = tmp_path_factory.mktemp("home")
    host = Host(home, 1_500, with_ids=with_ids)
    for number, (what, text) in enumerate(data.draw(st.lists(steps, max_size=25))):
        act(host, what, text, number)
    host.look()
    kept = stored_in(home)
    if with_ids:
        assert kept == all_said(host)
    else:
        # Said again after an undo it is the same message in the same place: once is enough.
        assert [each for each in all_said(host) if each not in kept] == []
        assert len(kept) <= len(host.said)
    assert '"error"' not in (report := host.tool("lcm_doctor")), report
    assert "All is well" in report, report
    host.close()


def act(host: Host, what: str, text: str, number: int) -> None:
    if what == "say":
        host.say(user(text), assistant(f"Answer to {len(text)}."))
        host.look()
    elif what == "tool":
        host.say(user(f"look {number}"), *group("look", "{}", text, f"c{number}"), assistant("Seen."))
        host.look()
    elif what == "look":
        host.look()
    elif what == "restart":
        host.restart()
    elif what == "compress":
        host.compress()
    elif what == "undo" and (asked := last_request(host.messages)):
        host.branch(host.messages[:asked])
    elif what == "branch":
        host.branch(host.messages)


def last_request(messages: list[Chat]) -> int | None:
    """Where the last exchange begins that somebody really said."""
    for index in range(len(messages) - 1, 0, -1):
        if messages[index]["role"] == "user":
            return None if str(messages[index]["content"]).startswith("[LCM ") else index
    return None
