"""Contract: the live pointer can go back to an earlier session, and nothing is lost on the way."""

from __future__ import annotations

import asyncio

import pytest

from agent.errors import HeadMoved, NotFound, StoreError
from agent.messages import Message
from agent.store import Address, Conversation, SessionStore, Split


async def _said(store: SessionStore, session_id: str, *texts: str) -> list[Message]:
    return await store.append(session_id, [Message("user", text) for text in texts])


async def test_the_pointer_goes_back(store: SessionStore, conversation: Conversation) -> None:
    """The parent is live again with the history it had; the child is still there, and so is its row."""
    parent = conversation.live_session_id
    said = await _said(store, parent, "first", "second")
    child = await store.split(Split(parent, "compression", [said[1].id]))
    assert await store.make_live(parent, instead_of=child.id) == conversation
    assert await store.conversation(conversation.id) == conversation
    assert await store.history(parent) == said
    assert await store.session(child.id) == child
    assert await store.history(child.id) == said[1:]


async def test_a_session_that_is_live_again_goes_on_and_splits_again(
    store: SessionStore, conversation: Conversation
) -> None:
    """It is a live session like any other: its second child lies beside the first."""
    parent = conversation.live_session_id
    first = await store.split(Split(parent, "compression"))
    await store.make_live(parent, instead_of=first.id)
    await _said(store, parent, "said after all")
    second = await store.split(Split(parent, "command"))
    assert (await store.conversation(conversation.id)).live_session_id == second.id
    assert [session.parent_id for session in await store.sessions(conversation.id)] == [None, parent, parent]
    assert [message.content for message in await store.transcript(conversation.id)] == ["said after all"]


async def test_a_head_that_moved_is_not_overruled(store: SessionStore, conversation: Conversation) -> None:
    """Who believes that another session is live is told, and the pointer stays."""
    parent = conversation.live_session_id
    child = await store.split(Split(parent, "compression"))
    grandchild = await store.split(Split(child.id, "compression"))
    with pytest.raises(HeadMoved):
        await store.make_live(parent, instead_of=child.id)
    assert (await store.conversation(conversation.id)).live_session_id == grandchild.id


async def test_of_two_at_the_same_time_one_wins(store: SessionStore, conversation: Conversation) -> None:
    """Going back races with a split: the second one finds that the head has moved."""
    parent = conversation.live_session_id
    child = await store.split(Split(parent, "compression"))
    outcomes = await asyncio.gather(
        store.make_live(parent, instead_of=child.id),
        store.split(Split(child.id, "compression")),
        store.make_live(parent, instead_of=child.id),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, HeadMoved) for outcome in outcomes) == 2


@pytest.mark.parametrize("unknown", ["wanted", "left"])
async def test_unknown_sessions(store: SessionStore, conversation: Conversation, unknown: str) -> None:
    """Neither can be unknown."""
    wanted, left = ("no", conversation.live_session_id)[:: 1 if unknown == "wanted" else -1]
    with pytest.raises(NotFound, match="no"):
        await store.make_live(wanted, instead_of=left)


async def test_the_pointer_stays_in_its_conversation(store: SessionStore, conversation: Conversation) -> None:
    """Another person's session is refused with a sentence, and neither conversation changes."""
    other = await store.open_conversation(Address("web", "other"), person="bob")
    with pytest.raises(StoreError, match="another conversation"):
        await store.make_live(other.live_session_id, instead_of=conversation.live_session_id)
    assert await store.conversation(conversation.id) == conversation
    assert await store.conversation(other.id) == other


async def test_search_covers_ancestors_and_branches_without_duplicates(
    store: SessionStore, conversation: Conversation
) -> None:
    """Splits that keep messages by reference, one undone, one a branch of all: each message is found once."""
    session_id = conversation.live_session_id
    said: list[Message] = []
    for number in range(5):
        said += await _said(store, session_id, f"apple {number}", f"the apples of {number}")
        kept = [message.id for message in said[number:]]
        summary = Message("user", "apples were discussed", kind="summary")
        session_id = (await store.split(Split(session_id, "compression", [summary, *kept]))).id
    undone = (await store.lineage(session_id))[-2].id
    await store.make_live(undone, instead_of=session_id)
    everything = [message.id for message in said]
    branch = await store.split(Split(undone, "branch", everything))
    said += await _said(store, branch.id, "one more apple")

    hits = await store.search("apple", conversation_id=conversation.id, limit=100)
    assert sorted(hit.message.id for hit in hits) == sorted(message.id for message in said)
    assert await store.transcript(conversation.id) == said
