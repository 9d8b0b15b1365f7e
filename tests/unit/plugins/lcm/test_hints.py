"""A message that speaks of something which has left the context brings a hint; small talk brings none."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.tokens import estimate_text_tokens
from tests.support.histories import assistant, chat, user
from tests.support.lcm_chats import Host

FACT = "The landlord of the Lisbon flat is Mr. Figueiredo, and the deposit was 1,850 euros."
QUESTION = "How much was the deposit for the Lisbon flat?"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A conversation in which the fact was summarised away."""
    host = Host(tmp_path, 6_000)
    host.say(user(FACT), assistant("I have noted the landlord and the deposit."), *chat(40, words=60)[1:])
    assert host.compress()
    return host


def asked(host: Host, text: str) -> str | None:
    host.say(user(text))
    return host.engine.hint(host.messages)


def test_what_was_said_before_is_named(host: Host) -> None:
    """With its id, in few words, and as somebody's words rather than as an instruction."""
    hint = asked(host, QUESTION)
    assert hint and hint.startswith("[LCM HINT]")
    assert "m1 · user" in hint and "<outside-" in hint
    assert estimate_text_tokens(hint) < 250


@pytest.mark.parametrize(
    "text", ["ok thanks", "What do you think?", "Good morning!", "", "tell me more", "👍"]
)
def test_small_talk_brings_none(host: Host, text: str) -> None:
    assert asked(host, text) is None


def test_it_is_said_once(host: Host) -> None:
    """A hint that is still in the context is not repeated."""
    hint = asked(host, QUESTION)
    host.messages += [{"role": "user", "content": hint, "message_id": "note-1"}, assistant("1,850 euros.")]
    assert asked(host, "And who is the landlord of the Lisbon flat, with the deposit?") is None


def test_a_hint_is_not_answered_with_a_hint(host: Host) -> None:
    """Nor is it stored as something that was said."""
    hint = asked(host, QUESTION)
    host.messages.append({"role": "user", "content": hint, "message_id": "note-1"})
    assert host.engine.hint(host.messages) is None
    assert "LCM HINT" not in host.tool("lcm_expand", id=f"m{len(host.said)}")


def test_what_is_in_the_context_needs_none(tmp_path: Path) -> None:
    host = Host(tmp_path, 100_000)
    host.say(user(FACT), assistant("Noted."))
    assert asked(host, QUESTION) is None


def test_what_another_branch_or_session_said_brings_none(host: Host) -> None:
    """After a reset nothing of before comes back by itself."""
    host.branch(host.messages[:1])
    host.say(*chat(40, words=60)[1:])
    host.compress()
    assert asked(host, QUESTION) is None


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    host = Host(tmp_path, 6_000, options={"recall_hints": False})
    host.say(user(FACT), assistant("Noted."), *chat(40, words=60)[1:])
    host.compress()
    assert asked(host, QUESTION) is None


def test_it_is_gone_after_the_next_compaction(host: Host) -> None:
    """By then what it named has been read or was not needed."""
    hint = asked(host, QUESTION)
    host.messages += [{"role": "user", "content": hint, "message_id": "note-1"}]
    host.say(assistant("1,850 euros."), *chat(40, words=60)[1:])
    host.compress()
    assert "[LCM HINT]" not in str(host.messages)
