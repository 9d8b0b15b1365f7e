"""Clocks are set back, and jump: what was said stays in the order in which it was said."""

from __future__ import annotations

import pytest

from agent.messages import Message
from agent.store import Address, Conversation, SessionStore, Split
from gateway.store.sqlite.search import SCORED

HOUR = 3600.0
NOON = 1_800_000_000.0
STEPS = [NOON, NOON + 10, NOON - 24 * HOUR, NOON - 25 * HOUR, NOON + 365 * 24 * HOUR, NOON - 24 * HOUR, 0.0]
"""What the clock showed when each message came: it was set back by a day, and again, and forth, and then it stopped."""

TEXTS = [f"apple {number}" for number in range(len(STEPS))]


def at(text: str, when: float) -> Message:
    return Message(role="user", content=text, created_at=when)


def texts(messages: list[Message]) -> list[str]:
    return [message.content for message in messages]


@pytest.fixture
async def spoken(store: SessionStore, conversation: Conversation) -> Conversation:
    for text, when in zip(TEXTS, STEPS, strict=True):
        await store.append(conversation.live_session_id, [at(text, when)])
    return conversation


async def test_history_and_transcript(store: SessionStore, spoken: Conversation) -> None:
    """As they were said, whole and from the end."""
    assert texts(await store.history(spoken.live_session_id)) == TEXTS
    assert texts(await store.transcript(spoken.id)) == TEXTS
    assert texts(await store.transcript(spoken.id, limit=3)) == TEXTS[-3:]
    assert [message.created_at for message in await store.transcript(spoken.id)] == STEPS


async def test_through_a_split(store: SessionStore, spoken: Conversation) -> None:
    """What is kept comes before what is said next, though the summary was written before either, by the clock."""
    kept = (await store.history(spoken.live_session_id))[-2:]
    summary = Message(role="user", content="summary", kind="summary", created_at=-HOUR)
    child = await store.split(
        Split(spoken.live_session_id, "compression", [summary, *(one.id for one in kept)])
    )
    await store.append(child.id, [at("next", -2 * HOUR)])
    assert texts(await store.history(child.id)) == ["summary", *TEXTS[-2:], "next"]
    assert texts(await store.transcript(spoken.id)) == [*TEXTS, "next"]


async def test_a_search_page_by_page(store: SessionStore, spoken: Conversation) -> None:
    """The newest first among equals, and a longer page begins with the shorter one."""
    pages = [texts([hit.message for hit in await store.search("apples", limit=limit)]) for limit in (2, 5, 7)]
    assert pages[-1] == TEXTS[::-1]
    assert pages[:2] == [pages[-1][:2], pages[-1][:5]]


async def test_a_search_for_a_word_that_everybody_uses(
    store: SessionStore, conversation: Conversation
) -> None:
    """Too many to weigh: the newest are those that were said last."""
    many = [at(f"pear {number}", NOON - number) for number in range(SCORED + 3)]
    await store.append(conversation.live_session_id, many)
    found = await store.search("pears", limit=3)
    assert texts([hit.message for hit in found]) == [f"pear {SCORED + 2 - place}" for place in range(3)]


async def test_the_list_of_conversations(store: SessionStore, spoken: Conversation) -> None:
    """The most recent conversation is first, also if the clock was set back."""
    later = await store.open_conversation(Address("web", "later"), person="ada")
    await store.append(later.live_session_id, [at("long ago, by the clock", -HOUR)])
    assert [each.conversation.id for each in await store.conversations()] == [later.id, spoken.id]
    await store.append(spoken.live_session_id, [at("and longer ago", -2 * HOUR)])
    assert [each.conversation.id for each in await store.conversations()] == [spoken.id, later.id]
