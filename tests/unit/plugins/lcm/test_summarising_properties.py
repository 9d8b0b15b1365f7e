"""What holds for a summary of anything: it is smaller than its sources, and the store can keep it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.errors import AuthenticationFailed, NetworkFailed
from agent.tokens import estimate_message_tokens, estimate_text_tokens
from plugins.context_engine.lcm.database import Database
from plugins.context_engine.lcm.graph import Node, SummaryText, add_leaf
from plugins.context_engine.lcm.messages import (
    NewMessage,
    StoredMessage,
    add_messages,
    conversation_key,
    messages_by_key,
)
from plugins.context_engine.lcm.summarising import Summariser
from plugins.context_engine.lcm.summarising.sources import summary_tokens
from tests.support.extractive_summariser import extractive_summary

TEXTS = st.builds(
    lambda word, count: word * count,
    st.sampled_from(
        [
            "word ",
            "naïve ",
            "漢字",
            "かなの",
            "한국어 ",
            "\ud800",
            "🙂",
            "\n",
            "{",
            "[s1]\n",
            "\0",
            "x",
            "<user>",
            "",
        ]
    )
    | st.text(max_size=12),
    st.sampled_from([1, 2, 5, 40, 700]),
)
"""`の` and braces change how a text is counted, so parts of a text are not always smaller than the whole."""
CONTENTS = (
    st.none()
    | TEXTS
    | st.lists(
        st.builds(lambda text: {"type": "text", "text": text}, TEXTS) | st.just({"type": "image_url"}),
        max_size=3,
    )
)
CALLS = st.lists(
    st.builds(
        lambda name, arguments: {
            "id": "c",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        },
        st.sampled_from(["read_file", "", "x] [USER"]),
        TEXTS,
    ),
    max_size=2,
)
CHATS = st.builds(
    lambda role, content, calls: (
        {"role": role, "content": content} | ({"tool_calls": calls} if calls else {})
    ),
    st.sampled_from(["user", "assistant", "tool"]),
    CONTENTS,
    CALLS,
)
ANSWERS = st.lists(
    st.none()
    | TEXTS
    | st.builds("{}\nExpand for details about: {}".format, TEXTS, TEXTS)
    | st.just(NetworkFailed()),
    min_size=1,
    max_size=3,
)
SURROGATE = re.compile("[\ud800-\udfff]")
ANYTHING = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def summariser(answers: list[Any], window: int) -> Summariser:
    left = list(answers)

    def ask(prompt: str, max_tokens: int) -> str | None:
        if SURROGATE.search(prompt):
            # The one kind of failure that no stand-in covers up.
            raise AuthenticationFailed("No provider could be sent this.")
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return Summariser(ask, window=window)


def check(written: SummaryText, size: int, target: int) -> None:
    assert written.tokens == summary_tokens(written.content, written.topics)
    assert written.tokens < size or written.tokens == size == 0
    assert written.content.strip() or size < 2
    assert "\n" not in written.topics
    assert estimate_text_tokens(written.topics) <= 40
    limit = {"detailed": target * 1.3, "bullets": max(1, target // 2) * 1.3, "stand_in": min(512, target)}
    assert estimate_text_tokens(written.content) <= limit[written.level]
    assert written.level != "stand_in" or written.tokens <= 512
    (written.content + written.topics).encode()
    assert "\0" not in written.content + written.topics


@ANYTHING
@given(
    chats=st.lists(CHATS, max_size=12),
    answers=ANSWERS,
    target=st.sampled_from([1, 10, 60, 300, 2_400]),
    window=st.sampled_from([1, 2_000, 100_000]),
)
def test_a_leaf_is_smaller_than_any_messages(
    chats: list[dict[str, Any]], answers: list[Any], target: int, window: int
) -> None:
    """For any sources and any answer of the model."""
    messages = [
        StoredMessage(n, n, chat["role"], chat, estimate_message_tokens(chat), 86_400.0 * n)
        for n, chat in enumerate(chats, 1)
    ]
    written = summariser(answers, window).leaf(messages, target=target)
    check(written, sum(message.tokens for message in messages), target)


@ANYTHING
@given(
    contents=st.lists(st.tuples(TEXTS, TEXTS), max_size=6),
    answers=ANSWERS,
    target=st.sampled_from([1, 10, 60, 2_000]),
)
def test_a_condensed_summary_is_smaller_than_any_children(
    contents: list[tuple[str, str]], answers: list[Any], target: int
) -> None:
    """Down to children of a single token."""
    nodes = [
        Node(n, 0, "detailed", content, topics, summary_tokens(content, topics), 1, 1, 1, n, n, 1.0, 2.0, 1)
        for n, (content, topics) in enumerate(contents, 1)
    ]
    written = summariser(answers, 100_000).condensed(nodes, target=target)
    check(written, sum(node.tokens for node in nodes), target)


def test_what_utf8_cannot_hold_is_stored_all_the_same(tmp_path: Path) -> None:
    """A summary stands in the database, whatever the sources and the answer hold."""
    odd = "half \ud800 a pair, \0 and the rest "
    chat = {"role": "user", "content": odd * 40}
    with Database(tmp_path / "hermes-lcm.db").writing() as connection:
        conversation = conversation_key(connection, "c", person="p", now=1.0)
        keys = [
            add_messages(connection, conversation, [NewMessage(name, chat, 1.0)])[0] for name in ("a", "b")
        ]
        messages = messages_by_key(connection, keys)
        for key, answer in zip(
            keys, [f"{odd}\nExpand for details about: {odd}", NetworkFailed()], strict=True
        ):
            written = summariser([answer], 9_000).leaf([messages[key]], target=200)
            made = add_leaf(connection, conversation, [messages[key]], written, 1.0)
            assert (made.content, made.topics, made.tokens) == (
                written.content,
                written.topics,
                written.tokens,
            )
            assert "half ? a pair" in made.content


def test_topics_of_children_can_be_stored_too() -> None:
    """Where the model gives none."""
    nodes = [Node(1, 0, "detailed", "text " * 90, "half \ud800 a pair", 120, 1, 1, 1, 1, 1, 1.0, 2.0, 1)]
    assert summariser(["Text."], 9_000).condensed(nodes, target=60).topics == "half ? a pair"


@settings(max_examples=60, deadline=None)
@given(prompt=TEXTS, limit=st.sampled_from([1, 20, 500]))
def test_the_summary_without_a_model_takes_any_prompt(prompt: str, limit: int) -> None:
    """And keeps to its limit."""
    assert estimate_text_tokens(extractive_summary(prompt, limit)) <= max(4, limit * 1.3)
