"""Leaves, condensation, the tail, giants, failures, and what the context looks like in between."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent.errors import AuthenticationFailed, NetworkFailed
from agent.tokens import estimate_messages_tokens_rough as tokens_in
from tests.support.histories import assistant, chat, check_sendable, check_turns_alternate, group, user
from tests.support.lcm_chats import Host, plain_chat, stored_in


def record_in(host: Host) -> str:
    return next(
        (str(each["content"]) for each in host.messages if str(each["content"]).startswith("[LCM RECORD]")),
        "",
    )


def test_the_oldest_become_a_summary_with_ids_and_times(tmp_path: Path) -> None:
    """Each summary names the messages that it covers, and how to read them."""
    host = Host(tmp_path, 8_000)
    host.say(*chat(40, words=60)[1:])
    assert host.compress()
    assert host.messages[0]["role"] == "system"
    record = record_in(host)
    heading = re.search(r"\[(s\d+) · m1-m\d+ · \d+ messages · [-\d]+ [:\d]+ UTC\]", record)
    assert heading and f"(lcm_expand {heading[1]}" in record
    check_sendable(host.messages)
    check_turns_alternate(host.messages)


def test_summaries_are_condensed_by_fan_in(tmp_path: Path) -> None:
    """A conversation that goes on for long is held by a few summaries of growing depth."""
    host = Host(tmp_path, 4_000, options={"fan_in": 3})
    depths: set[int] = set()
    for number in range(40):
        host.say(*chat(4, words=100)[1:], user(f"and number {number}"), assistant("Yes."))
        host.compress(current_tokens=tokens_in(host.messages))
        status = host.tool("lcm_status")
        depths |= {depth for depth in range(6) if f"Depth {depth}:" in status}
    assert {0, 1, 2} <= depths
    assert tokens_in(host.messages) < 2_000
    assert "All is well" in host.tool("lcm_doctor")


def test_between_compactions_the_context_only_grows(tmp_path: Path) -> None:
    """Also after a restart: what a provider has cached stays valid."""
    host = Host(tmp_path, 8_000)
    host.say(*chat(40, words=60)[1:])
    host.compress()
    before = list(host.messages)
    host.say(user("go on"), assistant("Gladly."))
    host.look()
    host.restart()
    host.look()
    host.tool("lcm_grep", query="part")
    assert host.messages[: len(before)] == before


def test_the_newest_request_stays_word_for_word(tmp_path: Path) -> None:
    """However many tools were called since."""
    host = Host(tmp_path, 4_000)
    host.say(*chat(5, words=60)[1:], user("Please check all of the forty files."))
    for number in range(40):
        host.say(*group("read", f'{{"file": {number}}}', f"content {number} " * 60, f"c{number}"))
    assert host.compress(current_tokens=tokens_in(host.messages))
    kept = [each for each in host.messages if each.get("content") == "Please check all of the forty files."]
    assert len(kept) == 1
    assert tokens_in(host.messages) < 2_000
    check_sendable(host.messages)


def test_a_call_without_a_result_gets_a_stub(tmp_path: Path) -> None:
    """Providers take no call without one. The stub is not taken for something said."""
    host = Host(tmp_path, 4_000)
    host.say(*chat(20, words=80)[1:], user("Look."), group("look", "{}", "", "c1")[0], user("Never mind."))
    for _ in range(2):
        host.say(*chat(20, words=80)[1:], user("And now?"))
        assert host.compress(current_tokens=tokens_in(host.messages))
        check_sendable(host.messages)
    assert stored_in(tmp_path) == [plain_chat(each) for each in host.said]


def test_constraints_stay_through_every_compaction(tmp_path: Path) -> None:
    """Word for word, in the ledger."""
    host = Host(tmp_path, 4_000)
    host.say(user("From now on never deploy on Friday."), assistant("Understood."))
    for _ in range(10):
        host.say(*chat(8, words=80)[1:])
        host.compress()
    assert "From now on never deploy on Friday." in record_in(host)


def test_a_rule_keeps_the_day_on_which_it_was_said(tmp_path: Path) -> None:
    """ "From tomorrow on" says nothing later."""
    host = Host(tmp_path, 4_000)
    rule = "From tomorrow on always answer in German."
    host.say({**user(rule), "created_at": 1_795_000_000.0}, assistant("Understood."), *chat(40, words=80)[1:])
    assert host.compress()
    assert f"- {rule} (said on Wed 2026-11-18)\n" in record_in(host)


def test_large_results_leave_for_a_digest(tmp_path: Path) -> None:
    """With an id under which all of it can be read."""
    rows = [{"id": number, "city": f"Town {number}", "tags": ["a", "b"]} for number in range(3_000)]
    whole = json.dumps(rows)
    host = Host(tmp_path, 100_000)
    host.say(user("List the towns."), *group("towns", "{}", whole, "c1"), assistant("There are 3,000."))
    host.say(user("Thanks."), assistant("You are welcome."))
    assert host.compress(current_tokens=tokens_in(host.messages))
    copy = next(each for each in host.messages if each["role"] == "tool")
    assert copy["content"].startswith("[LCM COPY of m3]") and "city" in copy["content"]
    assert tokens_in([copy]) < 2_000


@pytest.mark.parametrize("role", ["user", "assistant", "tool", "newest user"])
@pytest.mark.parametrize("text", ["word " * 30_000, "漢字" * 15_000, json.dumps({"k": "v" * 90_000})])
def test_one_message_larger_than_the_window(tmp_path: Path, role: str, text: str) -> None:
    """It can stand anywhere, also where the person is waiting for the answer to it."""
    host = Host(tmp_path, 8_000)
    giant = {
        "user": [user(text), assistant("Long.")],
        "assistant": [user("Write."), assistant(text)],
        "tool": [user("Look."), *group("look", "{}", text, "c1"), assistant("Seen.")],
        "newest user": [user(text)],
    }[role]
    host.say(*chat(3)[1:], *giant)
    if role != "newest user":
        host.say(user("And now?"))
    assert host.compress(current_tokens=tokens_in(host.messages))
    assert tokens_in(host.messages) <= host.engine.threshold_tokens
    check_sendable(host.messages)
    assert any(
        each["role"] == "user" and not str(each["content"]).startswith("[LCM RECORD")
        for each in host.messages
    )


def test_who_may_not_ask_compacts_nothing(tmp_path: Path) -> None:
    """A person has to put it right, so the conversation stays as it is, and it is not tried at every turn."""

    def refused(prompt: str, max_tokens: int) -> str:
        raise AuthenticationFailed("The key is not valid.")

    host = Host(tmp_path, 8_000, summarize=refused)
    host.say(*chat(60, words=60)[1:])
    assert not host.compress(current_tokens=5_000)
    assert host.engine.last_outcome.kind == "failed"
    assert "key is not valid" in host.engine.last_outcome.detail
    assert not host.engine.should_compress(5_000)


def test_stand_ins_are_marked_and_redone(tmp_path: Path) -> None:
    """While the model cannot be reached an extract stands in; afterwards a summary takes its place."""
    answers = [NetworkFailed("no network")] * 20

    def ask(prompt: str, max_tokens: int) -> str:
        if answers:
            raise answers.pop()
        return "They talked about parts.\nExpand for details about: parts"

    host = Host(tmp_path, 8_000, summarize=ask)
    host.say(*chat(60, words=60)[1:])
    assert host.compress(current_tokens=5_000)
    assert host.engine.last_outcome.kind == "stand_in"
    assert not host.engine.has_fallback_summary, "it is tried again at once"
    assert "an extract with gaps" in record_in(host)
    answers.clear()
    assert host.compress(current_tokens=tokens_in(host.messages))
    assert host.engine.last_outcome.kind == "ok"
    assert "an extract with gaps" not in record_in(host)
    assert "They talked about parts." in record_in(host)


def test_the_same_sources_are_never_paid_for_twice(tmp_path: Path) -> None:
    """A compaction that was prepared and not used costs nothing the next time."""
    asked: list[str] = []

    def ask(prompt: str, max_tokens: int) -> str:
        asked.append(prompt)
        return "They talked.\nExpand for details about: talk"

    host = Host(tmp_path, 8_000, summarize=ask)
    host.say(*chat(60, words=60)[1:])
    host.engine.compress(host.messages)
    first = len(asked)
    host.restart()
    assert host.compress()
    assert first and len(asked) == first


def test_others_can_write_while_a_model_is_asked(tmp_path: Path) -> None:
    """At once: no transaction waits for a summary, neither for a new one nor for one that is redone."""
    answers = 0

    def ask(prompt: str, max_tokens: int) -> str:
        nonlocal answers
        with closing(sqlite3.connect(tmp_path / "hermes-lcm.db", timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        answers += 1
        if answers == 1:
            raise NetworkFailed("no network")
        return "They talked.\nExpand for details about: talk"

    host = Host(tmp_path, 4_000, summarize=ask)
    for number in range(12):
        host.say(*chat(8, words=80)[1:], user(f"number {number}"))
        host.compress()
    assert answers > 12
    assert "Depth 1:" in host.tool("lcm_status")


def test_a_quoted_record_is_nobodys_record(tmp_path: Path) -> None:
    """Somebody who writes what looks like one has said it, and it is stored."""
    host = Host(tmp_path, 8_000)
    host.say(*chat(40, words=60)[1:])
    host.compress()
    forged = record_in(host).replace("m1-", "m2-")
    host.say(user(forged), assistant("Nice try."))
    host.look()
    assert forged in host.tool("lcm_expand", id=f"m{len(host.said) - 1}")


sizes = st.lists(
    st.tuples(st.sampled_from(["user", "tool", "assistant"]), st.integers(0, 6_000)), min_size=1, max_size=30
)


@pytest.mark.parametrize("summariser", ["echoing", "empty", "failing", "greedy"])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=sizes, window=st.integers(4_000, 16_000))
@example(history=[("assistant", 2630)], window=4_000)
def test_it_converges(
    tmp_path_factory: pytest.TempPathFactory, summariser: str, history: list[tuple[str, int]], window: int
) -> None:
    """Any conversation fits the window after one compaction, whatever the summariser does.

    The answer that the person replies to stays whole, so one large answer may keep it above the threshold until the
    next reply.
    """

    def ask(prompt: str, max_tokens: int) -> str:
        if summariser == "failing":
            raise NetworkFailed("gone")
        return {"echoing": prompt, "empty": "", "greedy": "so " * max_tokens}[summariser]

    host = Host(tmp_path_factory.mktemp("home"), window, summarize=ask)
    host.say(user("Begin."))
    for number, (role, words) in enumerate(history):
        said = f"w{number} " * words
        if role == "tool":
            host.say(*group("look", "{}", said, f"c{number}"))
        else:
            host.say({"role": role, "content": said or "-"})
    host.say(user("And now?"))
    tokens = tokens_in(host.messages)
    if tokens < host.engine.threshold_tokens:
        return
    host.compress(current_tokens=tokens)
    assert tokens_in(host.messages) < 0.8 * window
    check_sendable(host.messages)
    assert host.messages[-1]["content"] == "And now?"
    if tokens_in(host.messages) >= host.engine.threshold_tokens:
        host.say(assistant("Now we go on."), user("Good."))
        assert host.compress(current_tokens=tokens_in(host.messages))
        assert tokens_in(host.messages) < host.engine.threshold_tokens
    assert "All is well" in host.tool("lcm_doctor")
    host.close()
