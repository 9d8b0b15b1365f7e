"""What is on its way, in both stores: put there with what it tells of, followed, and forgotten when it has arrived."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.errors import StoreError
from agent.messages import Message
from agent.store import Address, Conversation
from gateway.store.ports import DeliveryProgress, GatewayStore, InboxMessage, OutboxItem, OutboxKind
from gateway.store.sql.store import SqlStore
from gateway.store.sqlite.store import SqliteStore
from gateway.types import Place

PLACE = Place("alice", "7", "group", "club")


@pytest.fixture
def store(gateway_store: SqlStore) -> GatewayStore:
    return gateway_store


@pytest.fixture
async def conversation(store: GatewayStore) -> Conversation:
    return await store.sessions.open_conversation(Address("web", "42"), person="ada")


@pytest.fixture
async def question(store: GatewayStore) -> str:
    await store.inbox.add(InboxMessage("msg_q", "telegram", {}, PLACE, "p1"))
    return "msg_q"


def _text(conversation: Conversation, message_id: str = "msg_a", content: str | None = None) -> OutboxItem:
    return OutboxItem(message_id, conversation.id, "msg_q", "p1", PLACE, "text", content)


async def _answer(store: GatewayStore, conversation: Conversation, text: str = "Hello.", **more: Any) -> None:
    said = Message("assistant", text, id="msg_a")
    await store.sessions.append(conversation.live_session_id, [said], answers="msg_q", **more)


async def test_an_answer_is_on_its_way_once_it_is_stored(
    store: GatewayStore, conversation: Conversation, question: str
) -> None:
    """To where the question came from, under the id of the message."""
    await _answer(store, conversation)
    assert await store.outbox.undelivered("telegram") == [_text(conversation, content="Hello.")]
    assert await store.outbox.undelivered("discord") == []


async def test_an_answer_that_is_not_stored_is_not_on_its_way(
    gateway_store: SqlStore,
) -> None:
    """Both or neither."""
    await gateway_store.inbox.add(InboxMessage("msg_q", "telegram", {}, PLACE, "p1"))
    with pytest.raises(StoreError):
        said = Message("assistant", "Hello.", id="msg_a")
        await gateway_store.sessions.append("ses_nowhere", [said], answers="msg_q")
    assert await gateway_store.outbox.undelivered("telegram") == []


async def test_whoever_comes_and_reads_gets_nothing_brought(
    store: GatewayStore, conversation: Conversation
) -> None:
    """A message of the page has no place."""
    await store.inbox.add(InboxMessage("msg_q", "web", {}))
    await _answer(store, conversation)
    about = {"conversation_id": conversation.id, "turn_id": "msg_q"}
    assert not await store.outbox.add("out_1", **about, kind="notice", content="Well.")
    assert await store.outbox.undelivered("web") == []


@pytest.mark.parametrize("kind", ["notice", "file"])
async def test_notices_and_files_come_in_order(
    store: GatewayStore, conversation: Conversation, question: str, kind: OutboxKind
) -> None:
    """As they were put there."""
    about = {"conversation_id": conversation.id, "turn_id": question}
    for number in range(3):
        assert await store.outbox.add(f"out_{number}", **about, kind=kind, content=str(number))
    assert [(left.content, left.kind) for left in await store.outbox.undelivered("telegram")] == [
        (str(number), kind) for number in range(3)
    ]


async def test_a_text_that_is_shown_while_it_is_written(
    store: GatewayStore, conversation: Conversation, question: str
) -> None:
    """It is known before its first call, and gets its content when it is stored; how far it has come stays."""
    how_far = DeliveryProgress("sending", ("m1", "m2"), is_streaming=True, sent_chars=12, remainder="```py\n")
    await store.outbox.save_progress("telegram", replace(_text(conversation), progress=how_far))
    assert await store.outbox.undelivered("telegram") == [replace(_text(conversation), progress=how_far)]
    await _answer(store, conversation)
    assert await store.outbox.undelivered("telegram") == [
        replace(_text(conversation, content="Hello."), progress=how_far)
    ]


@pytest.mark.parametrize("state", ["sent", "parked"])
async def test_what_is_over_is_not_open(
    store: GatewayStore, conversation: Conversation, question: str, state: Any
) -> None:
    """And stays so if its content comes late."""
    await store.outbox.save_progress(
        "telegram", replace(_text(conversation), progress=DeliveryProgress(state))
    )
    await _answer(store, conversation)
    assert await store.outbox.undelivered("telegram") == []


async def test_what_has_arrived_is_forgotten(gateway_store: SqlStore) -> None:
    """Nothing of its text is left in the outbox, and of a passing remark nothing at all; what is parked keeps it."""
    await gateway_store.inbox.add(InboxMessage("msg_q", "telegram", {}, PLACE, "p1"))
    about = {"conversation_id": "conv_1", "turn_id": "msg_q"}
    passing = OutboxItem(
        "out_0", "conv_1", "msg_q", "", PLACE, "transient", "Bye.", DeliveryProgress(shown_in=("m1",))
    )
    await gateway_store.outbox.save_progress("telegram", passing)
    for outgoing_id in ("out_1", "out_2"):
        await gateway_store.outbox.add(outgoing_id, **about, kind="notice", content="A secret.")
    one, two = (await gateway_store.outbox.undelivered("telegram"))[1:]
    await gateway_store.outbox.save_progress(
        "telegram",
        replace(passing, progress=DeliveryProgress("sent", ("m1",))),
        replace(one, progress=DeliveryProgress("sent", ("m2",), remainder="secret")),
        replace(two, progress=DeliveryProgress("parked", reason="Nobody there.")),
    )
    rows = await gateway_store.database.read(
        lambda database: database.execute("SELECT id, content, rest, shown_in, reason FROM outbox").fetchall()
    )
    assert rows == [("out_1", None, "", '["m2"]', ""), ("out_2", "A secret.", "", "[]", "Nobody there.")]


async def test_notes_are_made_together_or_not_at_all(
    store: GatewayStore, conversation: Conversation, question: str
) -> None:
    """A message that becomes another's must not be lost between the two."""
    await _answer(store, conversation)
    broken = replace(_text(conversation, "msg_b"), progress=DeliveryProgress("nonsense"))  # type: ignore[arg-type]
    with pytest.raises(Exception, match=r"(?i)check constraint"):
        await store.outbox.save_progress(
            "telegram", replace(_text(conversation), progress=DeliveryProgress("sent")), broken
        )
    assert await store.outbox.undelivered("telegram") == [_text(conversation, content="Hello.")]


async def test_before_a_call_the_disk_is_waited_for(sqlite_store: SqliteStore) -> None:
    """That an item is being sent must survive a power cut. That it has arrived need not: its outcome is unknown then,
    and the next message says so."""
    statements: list[str] = []
    trace = statements.append
    await sqlite_store.database.write(lambda connection: connection.set_trace_callback(trace), fence=None)
    waited: list[bool] = []
    pending = OutboxItem("msg_a", "conv_1", "msg_q", "", PLACE, "text", None)
    sending = replace(pending, progress=DeliveryProgress("sending"))
    for outgoing in (
        [sending],
        [pending],
        [pending, sending],
        [replace(pending, progress=DeliveryProgress("sent"))],
    ):
        statements.clear()
        await sqlite_store.outbox.save_progress("telegram", *outgoing)
        waited.append("PRAGMA synchronous = NORMAL" not in statements)
    assert waited == [True, False, True, False]


# -- texts that were not finished ----------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["pending", "sending"])
async def test_an_unfinished_text_is_withdrawn(
    store: GatewayStore, conversation: Conversation, question: str, state: Any
) -> None:
    """The visible part is deleted and the text written again; only a send in doubt is remembered."""
    how_far = DeliveryProgress(state, ("m1", "m2"), is_streaming=True, sent_chars=12, remainder="```py\n")
    await store.outbox.save_progress("telegram", replace(_text(conversation), progress=how_far))
    await store.outbox.discard_unfinished("telegram")
    await store.outbox.discard_unfinished("telegram")  # another crash meanwhile changes nothing
    *in_doubt, gone = await store.outbox.undelivered("telegram")
    expected = (
        [replace(_text(conversation), progress=DeliveryProgress("sending"))] if state == "sending" else []
    )
    assert in_doubt == expected
    assert (gone.kind, gone.content, gone.progress.shown_in) == ("transient", None, ("m1", "m2"))
    assert gone.id != "msg_a"
    await _answer(store, conversation)
    assert "Hello." in [left.content for left in await store.outbox.undelivered("telegram")]


async def test_what_is_whole_is_not_withdrawn(
    store: GatewayStore, conversation: Conversation, question: str
) -> None:
    """Nor what belongs to another platform."""
    whole = replace(
        _text(conversation, content="Hello."),
        progress=DeliveryProgress("sending", ("m1",), is_streaming=True),
    )
    await _answer(store, conversation)
    await store.outbox.save_progress("telegram", whole)
    other = replace(
        _text(conversation, "msg_b"), progress=DeliveryProgress("pending", ("m1",), is_streaming=True)
    )
    await store.outbox.save_progress("discord", other)
    await store.outbox.discard_unfinished("telegram")
    assert await store.outbox.undelivered("telegram") == [whole]
    assert await store.outbox.undelivered("discord") == [other]


@pytest.mark.parametrize("end", ["settled", "parked"])
async def test_a_text_that_nobody_will_write_is_forgotten(
    store: GatewayStore, conversation: Conversation, question: str, end: str
) -> None:
    """What is seen of it goes, also where its turn has come to its end: then it was said in other words."""
    how_far = DeliveryProgress("sending", ("m1",), is_streaming=True)
    await store.outbox.save_progress("telegram", replace(_text(conversation), progress=how_far))
    if end == "parked":
        await store.inbox.park([question], "it broke down")
    else:
        await store.inbox.mark_done([question])
    await store.outbox.discard_unfinished("telegram")
    assert [left.kind for left in await store.outbox.undelivered("telegram")] == ["transient"]
