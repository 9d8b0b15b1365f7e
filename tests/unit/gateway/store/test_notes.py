"""Contract: notes are part of what the model sees, and of nothing else."""

from __future__ import annotations

from agent.messages import Message
from agent.store import Conversation, SessionStore, Split


async def _append(store: SessionStore, session_id: str, *texts: str) -> list[Message]:
    """Those in brackets are notes."""
    kinds = {True: "note", False: "said"}
    return await store.append(
        session_id,
        [Message("user", text, kind=kinds[text.startswith("[")]) for text in texts],  # type: ignore[arg-type]
    )


async def _texts(store: SessionStore, session_id: str) -> list[str]:
    return [message.content for message in await store.history(session_id)]


async def test_a_note_has_its_place_in_the_history(store: SessionStore, conversation: Conversation) -> None:
    """In the order in which it was stored, and nowhere else: it was not said."""
    session_id = conversation.live_session_id
    await _append(store, session_id, "[tulips early]", "one", "[tulips]", "two", "three", "[tulips again]")
    assert await _texts(store, session_id) == [
        "[tulips early]",
        "one",
        "[tulips]",
        "two",
        "three",
        "[tulips again]",
    ]
    assert [message.kind for message in await store.history(session_id)] == [
        "note",
        "said",
        "note",
        "said",
        "said",
        "note",
    ]
    said = [message.content for message in await store.transcript(conversation.id)]
    assert said == ["one", "two", "three"]
    assert await store.search("tulips") == []
    (listed,) = await store.conversations()
    assert (listed.title, listed.messages) == ("one", 3)


async def test_a_child_refers_to_notes_as_to_anything_else(
    store: SessionStore, conversation: Conversation
) -> None:
    """One it began with is not read a second time, also where it is a copy made for the child."""
    _, note, two, other = await _append(store, conversation.live_session_id, "one", "[a]", "two", "[b]")
    copy = Message("user", "[b, shortened]", kind="note", source_id=other.id)
    child = await store.split(Split(conversation.live_session_id, "compression", [note.id, two.id, copy]))
    await _append(store, child.id, "three", "[c]")
    assert await _texts(store, child.id) == ["[a]", "two", "[b, shortened]", "three", "[c]"]
    assert await _texts(store, conversation.live_session_id) == ["one", "[a]", "two", "[b]"]
    grandchild = await store.split(
        Split(child.id, "branch", [each.id for each in await store.history(child.id)])
    )
    assert await _texts(store, grandchild.id) == ["[a]", "two", "[b, shortened]", "three", "[c]"]
