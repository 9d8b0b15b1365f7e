"""Contract: splits, lineage, pinned prompts and what is counted along the way."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agent.errors import HeadMoved, NotFound
from agent.llm import Usage
from agent.messages import Message
from agent.store import Address, Compaction, Conversation, SessionStore, Split


async def _said(store: SessionStore, session_id: str, *texts: str) -> list[Message]:
    return await store.append(session_id, [Message(role="user", content=text) for text in texts])


def _texts(messages: list[Message]) -> list[str]:
    return [message.content for message in messages]


async def test_a_split_keeps_by_reference_and_adds_its_own(
    store: SessionStore, conversation: Conversation
) -> None:
    """Kept, new and pruned rows come in the order of the split, then what is said in the child."""
    head, _, tool, tail = await _said(store, conversation.live_session_id, "head", "mid", "tool", "tail")
    summary = Message(role="user", content="summary", kind="summary")
    pruned = Message(role="user", content="pruned", kind="pruned", source_id=tool.id)
    child = await store.split(
        Split(
            conversation.live_session_id,
            "compression",
            [head.id, summary, pruned, tail.id],
            system_prompt="You are.",
            engine="compressor",
            model="m",
        )
    )
    await _said(store, child.id, "next")

    assert (child.parent_id, child.reason, child.system_prompt, child.engine, child.model) == (
        conversation.live_session_id,
        "compression",
        "You are.",
        "compressor",
        "m",
    )
    assert (await store.conversation(conversation.id)).live_session_id == child.id
    history = await store.history(child.id)
    assert _texts(history) == ["head", "summary", "pruned", "tail", "next"]
    assert history[0] == head
    assert history[1] == replace(summary, session_id=child.id)
    assert history[2].source_id == tool.id


async def test_the_parent_stays_as_it_was(store: SessionStore, conversation: Conversation) -> None:
    """A split takes nothing away: the parent's history is still there, and the transcript has each message once."""
    first, second = await _said(store, conversation.live_session_id, "first", "second")
    child = await store.split(
        Split(
            conversation.live_session_id,
            "hygiene",
            [Message(role="user", content="s", kind="summary"), second.id],
        )
    )
    await _said(store, child.id, "third")
    assert await store.history(conversation.live_session_id) == [first, second]
    assert _texts(await store.transcript(conversation.id)) == ["first", "second", "third"]
    assert _texts(await store.transcript(conversation.id, limit=2)) == ["second", "third"]
    assert await store.transcript(conversation.id, limit=0) == []


async def test_a_kept_message_is_kept_again(store: SessionStore, conversation: Conversation) -> None:
    """A grandchild may refer to a grandparent's message and to its parent's summary."""
    (first,) = await _said(store, conversation.live_session_id, "first")
    summary = Message(role="user", content="summary", kind="summary")
    child = await store.split(Split(conversation.live_session_id, "compression", [summary, first.id]))
    grandchild = await store.split(Split(child.id, "compression", [first.id, summary.id]))
    assert _texts(await store.history(grandchild.id)) == ["first", "summary"]


async def test_a_reset_starts_with_nothing(store: SessionStore, conversation: Conversation) -> None:
    """An empty context is an empty history; the transcript still goes back to the beginning."""
    await _said(store, conversation.live_session_id, "before")
    child = await store.split(Split(conversation.live_session_id, "reset"))
    assert await store.history(child.id) == []
    assert _texts(await store.transcript(conversation.id)) == ["before"]


async def test_a_split_of_a_session_that_is_not_live_is_refused(
    store: SessionStore, conversation: Conversation
) -> None:
    """Of two compactions of the same session, the second finds that the head has moved, and leaves no trace."""
    child = await store.split(Split(conversation.live_session_id, "compression"))
    late = Message(role="user", content="late", kind="summary")
    with pytest.raises(HeadMoved):
        await store.split(Split(conversation.live_session_id, "compression", [late]))
    assert [session.id for session in await store.sessions(conversation.id)] == [
        conversation.live_session_id,
        child.id,
    ]
    await store.split(Split(child.id, "compression", [late]))  # its id is still free


async def test_of_splits_at_the_same_time_one_wins(store: SessionStore, conversation: Conversation) -> None:
    """Ten racing splits make one child."""
    outcomes = await asyncio.gather(
        *(store.split(Split(conversation.live_session_id, "command")) for _ in range(10)),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, HeadMoved) for outcome in outcomes) == 9
    assert len(await store.sessions(conversation.id)) == 2


async def test_a_split_with_an_unknown_message_changes_nothing(
    store: SessionStore, conversation: Conversation
) -> None:
    """All or none: no child, no new row, and the pointer where it was."""
    summary = Message(role="user", content="s", kind="summary")
    for context in ([summary, "no"], [summary, Message(role="user", kind="pruned", source_id="no")]):
        with pytest.raises(NotFound):
            await store.split(Split(conversation.live_session_id, "compression", context))
    assert await store.conversation(conversation.id) == conversation
    assert len(await store.sessions(conversation.id)) == 1
    await store.split(Split(conversation.live_session_id, "compression", [summary]))


async def test_somebody_elses_message_cannot_be_kept(store: SessionStore, conversation: Conversation) -> None:
    """A context refers to messages of its own conversation only."""
    other = await store.open_conversation(Address("web", "other"), person="bob")
    (secret,) = await _said(store, other.live_session_id, "secret")
    with pytest.raises(NotFound):
        await store.split(Split(conversation.live_session_id, "compression", [secret.id]))


async def test_a_context_that_makes_no_sense(store: SessionStore, conversation: Conversation) -> None:
    """The same message twice, or a new row that claims to have been said, is the caller's mistake."""
    (first,) = await _said(store, conversation.live_session_id, "first")
    with pytest.raises(ValueError, match="twice"):
        await store.split(Split(conversation.live_session_id, "compression", [first.id, first.id]))
    with pytest.raises(ValueError, match="by its id"):
        await store.split(Split(conversation.live_session_id, "compression", [Message(role="user")]))


async def test_a_lineage_of_a_thousand(store: SessionStore, conversation: Conversation) -> None:
    """Oldest first, however deep."""
    expected = [conversation.live_session_id]
    for _ in range(1_000):
        expected.append((await store.split(Split(expected[-1], "compression"))).id)
    lineage = await store.lineage(expected[-1])
    assert [session.id for session in lineage] == expected
    assert [session.parent_id for session in lineage] == [None, *expected[:-1]]
    assert [session.id for session in await store.lineage(expected[3])] == expected[:4]
    assert [session.id for session in await store.sessions(conversation.id)] == expected


async def test_the_first_pin_wins(store: SessionStore, conversation: Conversation) -> None:
    """A session's prompt is rendered once; later renderings change nothing, not even beside it."""
    pinned = await store.pin(conversation.live_session_id, system_prompt="first", model="a")
    again = await store.pin(conversation.live_session_id, system_prompt="second", model="b")
    assert again == pinned == await store.session(conversation.live_session_id)
    assert (pinned.system_prompt, pinned.model) == ("first", "a")


async def test_an_empty_prompt_is_pinned_too(store: SessionStore, conversation: Conversation) -> None:
    """No prompt and an empty one are different things."""
    await store.pin(conversation.live_session_id, system_prompt="", model="a")
    assert (await store.pin(conversation.live_session_id, system_prompt="x", model="b")).system_prompt == ""


async def test_a_split_may_bring_its_prompt(store: SessionStore, conversation: Conversation) -> None:
    """A child born with a prompt has it pinned."""
    child = await store.split(Split(conversation.live_session_id, "compression", system_prompt="born"))
    assert (await store.pin(child.id, system_prompt="late", model="m")).system_prompt == "born"


async def test_compactions_are_listed_under_their_child(
    store: SessionStore, conversation: Conversation
) -> None:
    """Oldest first, with every figure; a reset without one leaves no row."""
    first = Compaction("threshold", "compressor", 40, 12, 90_000, 21_000, "the plan", 3.5, 0.02, "ok")
    second = Compaction("command", "lcm", 20, 10, 5_000, 2_000)
    one = await store.split(Split(conversation.live_session_id, "compression", compaction=first))
    two = await store.split(Split(one.id, "reset"))
    three = await store.split(Split(two.id, "command", compaction=second))
    assert await store.compactions(conversation.id) == [(one.id, first), (three.id, second)]


async def test_usage_is_summed(store: SessionStore, conversation: Conversation) -> None:
    """Over a conversation, and over all of them."""
    other = await store.open_conversation(Address("web", "other"), person="bob")
    child = await store.split(Split(conversation.live_session_id, "reset"))
    await store.record_usage(conversation.live_session_id, Usage(10, 2, 5, 1, 0.5), model="m")
    await store.record_usage(child.id, Usage(20, 4), model="m", purpose="compression")
    await store.record_usage(other.live_session_id, Usage(100, 1, cost_usd=0.25), model="m")

    assert await store.usage(conversation_id=conversation.id) == Usage(30, 6, 5, 1, 0.5)
    assert await store.usage() == Usage(130, 7, 5, 1, 0.75)


async def test_a_cost_that_is_not_known_stays_unknown(
    store: SessionStore, conversation: Conversation
) -> None:
    """None is not free: only where a price was known there is a sum."""
    await store.record_usage(conversation.live_session_id, Usage(1, 1), model="m")
    assert (await store.usage(conversation_id=conversation.id)).cost_usd is None
    await store.record_usage(conversation.live_session_id, Usage(1, 1, cost_usd=0.0), model="m")
    assert (await store.usage(conversation_id=conversation.id)).cost_usd == 0.0


async def test_a_turn_sets_the_prompt_tokens(store: SessionStore, conversation: Conversation) -> None:
    """What the provider reported for the last turn; other calls do not count."""
    await store.record_usage(conversation.live_session_id, Usage(prompt_tokens=700), model="m")
    await store.record_usage(conversation.live_session_id, Usage(prompt_tokens=9), model="m", purpose="title")
    assert (await store.session(conversation.live_session_id)).prompt_tokens == 700


async def test_facts_belong_to_a_person(store: SessionStore) -> None:
    """In the order in which they were learned, without lost updates."""
    likes = await store.remember("ada", "likes tea")
    lives = await store.remember("ada", "lives in London")
    await store.remember("bob", "likes coffee")
    assert await store.facts("ada") == [likes, lives]
    assert not await store.forget("bob", likes.id)
    assert await store.forget("ada", likes.id)
    assert not await store.forget("ada", likes.id)
    assert await store.facts("ada") == [lives]
    assert await store.facts("nobody") == []


async def test_state_is_kept_by_name(store: SessionStore, conversation: Conversation) -> None:
    """The last value counts, and each name and conversation has its own."""
    other = await store.open_conversation(Address("web", "other"), person="ada")
    assert await store.load_state(conversation.id, "todo") is None
    await store.save_state(conversation.id, "todo", "one")
    await store.save_state(conversation.id, "todo", "")
    await store.save_state(conversation.id, "notes", "n")
    assert await store.load_state(conversation.id, "todo") == ""
    assert await store.load_state(conversation.id, "notes") == "n"
    assert await store.load_state(other.id, "todo") is None
