"""Contract: conversations, what is said in them, and lists of them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import FrozenInstanceError, replace

import pytest

from agent.errors import NotFound, StoreError
from agent.messages import Message, ToolCall
from agent.store import Address, Conversation, LearnedWindow, SessionStore, Split
from gateway.store.sql.rows import title_from


async def test_an_address_has_one_conversation(store: SessionStore) -> None:
    """Opening twice gives the same conversation; another thread of the same chat is another one."""
    first = await store.open_conversation(Address("telegram", "7"), person="ada")
    again = await store.open_conversation(Address("telegram", "7"), person="somebody else")
    thread = await store.open_conversation(Address("telegram", "7", thread_id="2"), person="ada")
    assert again == first == await store.conversation(first.id)
    assert thread.id != first.id


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("Give me a **short** answer", "Give me a short answer"),
        ("# A *small* `heading`\n\nand more", "A small heading and more"),
        ("What is 2*3*4, or a ** b ** c?", "What is 2*3*4, or a ** b ** c?"),
        ("Why is __init__ empty?", "Why is __init__ empty?"),
        ("**" * 60_000, "*" * 79 + "…"),
    ],
)
def test_a_title_has_no_marks(said: str, title: str) -> None:
    """It is shown as it is; what only looks like a mark stays."""
    assert title_from(said) == title


async def test_opening_at_the_same_time_makes_one(store: SessionStore) -> None:
    """Ten tasks that meet at a new address all get the same conversation."""
    opened = await asyncio.gather(
        *(store.open_conversation(Address("web", "new"), person="ada") for _ in range(10))
    )
    assert len({conversation.id for conversation in opened}) == 1


async def test_a_new_conversation_has_an_empty_first_session(
    store: SessionStore, conversation: Conversation
) -> None:
    """The live pointer leads to a session without a parent and without messages."""
    session = await store.session(conversation.live_session_id)
    assert (session.conversation_id, session.parent_id, session.reason) == (conversation.id, None, None)
    assert (session.system_prompt, session.prompt_tokens) == (None, None)
    assert await store.history(session.id) == []
    assert await store.transcript(conversation.id) == []


async def test_what_is_appended_comes_back_as_it_was(store: SessionStore, conversation: Conversation) -> None:
    """Every field survives, and the order of writing is the order of reading."""
    messages = [
        Message(role="user", content="héllo\n東京 \U0001f600\0end", name="Ada"),
        Message(role="user", content="a cat", parts=({"type": "image_url", "image_url": {"url": "data:,"}},)),
        Message(
            role="assistant", tool_calls=(ToolCall("c1", "look", '{"at": 1'), ToolCall("c2", "look", ""))
        ),
        Message(role="tool", content="nothing", tool_call_id="c1", name="look"),
        Message(role="assistant", content=""),
    ]
    stored = await store.append(conversation.live_session_id, messages)
    assert stored == [replace(message, session_id=conversation.live_session_id) for message in messages]
    assert await store.history(conversation.live_session_id) == stored
    with pytest.raises(FrozenInstanceError):
        stored[0].content = "changed"  # type: ignore[misc]


async def test_order_does_not_come_from_the_clock(store: SessionStore, conversation: Conversation) -> None:
    """A clock that steps back between two messages does not turn them round."""
    late, early = (
        Message(role="user", content="1", created_at=200.0),
        Message(role="user", content="2", created_at=100.0),
    )
    await store.append(conversation.live_session_id, [late])
    await store.append(conversation.live_session_id, [early])
    assert [message.content for message in await store.history(conversation.live_session_id)] == ["1", "2"]
    assert [message.content for message in await store.transcript(conversation.id)] == ["1", "2"]


async def test_an_append_is_all_or_none(store: SessionStore, conversation: Conversation) -> None:
    """Another message with a stored id fails the whole append."""
    (known,) = await store.append(conversation.live_session_id, [Message(role="user", content="known")])
    with pytest.raises(StoreError):
        await store.append(
            conversation.live_session_id, [Message(role="user", content="new"), replace(known, content="x")]
        )
    assert await store.history(conversation.live_session_id) == [known]


async def test_a_lone_surrogate_does_not_cost_the_message(
    store: SessionStore, conversation: Conversation
) -> None:
    """Broken JSON escapes make text that UTF-8 cannot hold; the rest of it is kept."""
    broken = json.loads('"before \\ud83d after"')
    (stored,) = await store.append(conversation.live_session_id, [Message(role="assistant", content=broken)])
    assert stored.content == "before ? after"
    assert await store.history(conversation.live_session_id) == [stored]


async def test_only_what_was_said_is_appended(store: SessionStore, conversation: Conversation) -> None:
    """A summary outside a child's context could never be reached again."""
    with pytest.raises(ValueError, match="summary"):
        await store.append(conversation.live_session_id, [Message(role="user", kind="summary")])


async def test_a_changed_original_does_not_change_what_is_stored(
    store: SessionStore, conversation: Conversation
) -> None:
    """Parts are dictionaries; the store keeps its own."""
    part = {"type": "text", "text": "before"}
    await store.append(conversation.live_session_id, [Message(role="user", parts=(part,))])
    part["text"] = "after"
    assert (await store.history(conversation.live_session_id))[0].parts == (
        {"type": "text", "text": "before"},
    )


async def test_sixty_four_writers_keep_their_order(store: SessionStore) -> None:
    """Conversations that write at the same time do not mix and do not overtake themselves."""
    opened = [await store.open_conversation(Address("web", str(n)), person="p") for n in range(64)]

    async def talk(conversation: Conversation) -> None:
        for number in range(20):
            text = f"{conversation.address.chat_id}:{number}"
            await store.append(conversation.live_session_id, [Message(role="user", content=text)])

    await asyncio.gather(*map(talk, opened))
    for conversation in opened:
        contents = [message.content for message in await store.history(conversation.live_session_id)]
        assert contents == [f"{conversation.address.chat_id}:{number}" for number in range(20)]


async def test_a_list_of_conversations(store: SessionStore) -> None:
    """Newest activity first, by what was written last and not by the clock; silent ones at the end."""
    silent = await store.open_conversation(Address("web", "silent"), person="ada")
    old = await store.open_conversation(Address("web", "old"), person="ada")
    new = await store.open_conversation(Address("telegram", "new"), person="ada")
    other = await store.open_conversation(Address("web", "other"), person="bob")
    await store.append(old.live_session_id, [Message(role="user", content="first\n  line", created_at=9e9)])
    await store.append(other.live_session_id, [Message(role="user", content="x" * 200)])
    await store.append(
        new.live_session_id,
        [Message(role="assistant", content="hi"), Message(role="user", content="q", created_at=5.0)],
    )

    everybody = await store.conversations()
    assert [overview.conversation.id for overview in everybody] == [new.id, other.id, old.id, silent.id]
    assert [overview.title for overview in everybody] == ["q", "x" * 79 + "…", "first line", ""]
    assert [overview.messages for overview in everybody] == [2, 1, 1, 0]
    assert [overview.updated_at for overview in everybody[::2]] == [5.0, 9e9]
    assert everybody[3].updated_at == silent.created_at

    hers = await store.conversations(person="ada", platform="web")
    assert [overview.conversation.id for overview in hers] == [old.id, silent.id]
    assert [overview.conversation.id for overview in await store.conversations(limit=1)] == [new.id]
    assert await store.conversations(limit=0) == []


async def test_a_split_conversation_is_one_line(store: SessionStore, conversation: Conversation) -> None:
    """Its sessions are counted, its messages once, and its title stays the first thing said."""
    await store.append(conversation.live_session_id, [Message(role="user", content="first")])
    child = await store.split(
        Split(
            conversation.live_session_id, "compression", [Message(role="user", content="s", kind="summary")]
        )
    )
    await store.append(child.id, [Message(role="user", content="second")])
    (overview,) = await store.conversations()
    assert (overview.title, overview.messages, overview.sessions) == ("first", 2, 2)


async def test_ids_that_name_nothing(store: SessionStore, conversation: Conversation) -> None:
    """Every verb that takes an id says NotFound when there is nothing under it."""
    from agent.llm import Usage

    for asking in (
        store.conversation("no"),
        store.session("no"),
        store.append("no", [Message(role="user", content="lost")]),
        store.append("no", []),
        store.history("no"),
        store.transcript("no"),
        store.pin("no", system_prompt="", model=""),
        store.split(Split("no", "reset")),
        store.split(Split(conversation.live_session_id, "compression", ["no"])),
        store.lineage("no"),
        store.sessions("no"),
        store.compactions("no"),
        store.record_usage("no", Usage(), model="m"),
        store.usage(conversation_id="no"),
        store.search("lost", conversation_id="no"),
        store.load_state("no", "key"),
        store.save_state("no", "key", "value"),
    ):
        with pytest.raises(NotFound):
            await asking
    assert (await store.conversation(conversation.id)) == conversation


async def test_which_messages_are_known(store: SessionStore, conversation: Conversation) -> None:
    """Asked for many at once; of none, none."""
    stored = await store.append(
        conversation.live_session_id, [Message("user", "one"), Message("user", "two")]
    )
    ids = [message.id for message in stored]
    assert await store.known([*ids, "msg_unknown", ""]) == set(ids)
    assert await store.known([]) == set()


async def test_windows_that_were_learned(store: SessionStore) -> None:
    """One for each model; what is learned later takes the place of what was known."""
    assert await store.learned_windows() == []
    first = LearnedWindow("openai/a", 131_072, 9_000, named=False, learned_at=1.0)
    other = LearnedWindow("openai/b", 32_768, 4_096, named=True, learned_at=2.0, endpoint="127.0.0.1:8080/v1")
    later = LearnedWindow("openai/a", 131_072, 8_192, named=True, learned_at=3.0)
    for window in (first, other, later):
        await store.learn_window(window)
    assert sorted(await store.learned_windows(), key=lambda window: window.model) == [later, other]
    await store.forget_window("openai/a")
    assert await store.learned_windows() == [other]
