"""Reports, imports, exports, leases and health give the same answers on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import pytest

from agent.errors import LeaseLost
from agent.llm import Usage
from agent.messages import Message, ToolCall
from agent.store import Address, Compaction, Conversation, LearnedWindow, Session, Split
from gateway.errors import QueueFull
from gateway.store.access import AskingLimits, PairingRequest
from gateway.store.import_types import (
    ImportedConversation,
    ImportedSession,
    address_of,
    message_id,
    session_id,
)
from gateway.store.ports import DeliveryProgress, Fence, InboxMessage, OutboxItem, QueueLimits
from gateway.store.sql.store import SqlStore
from gateway.types import Place

CHAT = Place("77", "5", "group", "club")
QUESTION = Message("user", "What is **the** plan?\0 漢字", id="msg_1", created_at=10.0)
CALL = Message("assistant", "", tool_calls=(ToolCall("c1", "look", "{}"),), id="msg_2", created_at=11.0)
RESULT = Message("tool", "found it " * 20, tool_call_id="c1", name="look", id="msg_3", created_at=12.0)
ANSWER = Message("assistant", "Here it is.", id="msg_4", created_at=13.0)


@dataclass
class Story:
    store: SqlStore
    conversation: Conversation
    child: Session


@pytest.fixture
async def story(gateway_store: SqlStore) -> Story:
    """A conversation that was compacted once, with a parked message and a parked reply."""
    store = gateway_store
    conversation = await store.sessions.open_conversation(Address("telegram", "77", "5"), person="telegram:7")
    live = conversation.live_session_id
    await store.inbox.add(
        InboxMessage("msg_1", "telegram", {"author": {"id": "7"}, "text": "What"}, CHAT, "99")
    )
    await store.sessions.append(live, [QUESTION])
    await store.sessions.append(live, [CALL, RESULT])
    await store.sessions.append(live, [ANSWER], answers="msg_1", settles=["msg_1"])
    await store.sessions.record_usage(live, Usage(1_000, 20, 500, 10, 0.25), model="m", spender="telegram:7")
    await store.sessions.record_usage(live, Usage(2_000, 20), model="m", spender="telegram:7")
    summary = Message("user", "Short.", kind="summary", id="msg_s")
    pruned = Message("tool", "found", kind="pruned", source_id="msg_3", tool_call_id="c1", id="msg_p")
    compaction = Compaction("threshold", "compressor", 4, 3, 2_000, 300, None, 1.5, None)
    child = await store.sessions.split(
        Split(live, "compression", [summary, "msg_2", pruned], "prompt", "compressor", "m", compaction)
    )
    await store.inbox.add(
        InboxMessage("msg_bad", "telegram", {"author": {"id": "7"}, "text": "Bad"}, CHAT, "100")
    )
    await store.inbox.park(["msg_bad"], "It failed.")
    item = OutboxItem("out_1", conversation.id, "msg_1", "99", CHAT, "notice", "Late.")
    await store.outbox.save_progress("telegram", item)
    parked = DeliveryProgress("parked", reason="Blocked.")
    await store.outbox.save_progress("telegram", OutboxItem(*_fields(item), progress=parked))
    return Story(store, conversation, child)


def _fields(item: OutboxItem) -> tuple[object, ...]:
    return (item.id, item.conversation_id, item.turn_id, item.reply_to, item.place, item.kind, item.content)


async def test_lists_of_conversations(story: Story) -> None:
    reports = story.store.reports.conversations
    await story.store.sessions.open_conversation(Address("web", "empty"), person="ada")
    page = await reports.page(person=None, platform=None, first=0, limit=10)
    (row,) = page.rows
    assert (page.total, row.title, row.messages, row.sessions) == (1, "What is the plan?\0 漢字", 4, 2)
    assert (row.prompt_tokens, row.usd, row.unpriced_calls, row.updated_at) == (300, 0.25, 1, 13.0)
    assert (await reports.page(person="nobody", platform="telegram", first=0, limit=10)).rows == []
    assert await reports.rows([story.conversation.id]) == {story.conversation.id: row}
    assert (await reports.filter_options()).people == [("ada", "ada"), ("telegram:7", "telegram:7")]
    overviews = await story.store.sessions.conversations()
    assert [each.conversation.address.platform for each in overviews] == ["telegram", "web"]
    assert await reports.reply_place(story.conversation) == CHAT


async def test_transcripts_and_the_session_tree(story: Story) -> None:
    reports, live = story.store.reports.conversations, story.child.id
    whole = await reports.transcript_page(live, first=None, limit=10)
    assert [message.id for message in whole.messages] == ["msg_1", "msg_2", "msg_3", "msg_4"]
    assert whole.messages[0].content == QUESTION.content and whole.messages[1].tool_calls == CALL.tool_calls
    page = await reports.transcript_page(live, first=2, limit=1)
    assert ([message.id for message in page.messages], page.first, page.total) == (["msg_2", "msg_3"], 2, 4)
    assert await reports.locate_message(story.conversation.id, "msg_4") == (live, 4)
    first, second = await reports.sessions(story.conversation.id)
    assert (first.messages, first.compaction, first.has_summary) == (4, None, False)
    assert (second.messages, second.has_summary, second.compaction.tokens_after) == (0, True, 300)
    assert [sample.tokens for sample in await reports.context_samples(live)] == [1_000, 2_000]
    diff = await reports.compaction_diff(live, first=1, limit=1)
    assert [message.id for message in diff.written] == ["msg_s", "msg_p"]
    assert ([message.id for message in diff.left.messages], diff.left.total, diff.kept) == (["msg_1"], 2, 1)
    assert [message.id for message in diff.originals] == ["msg_3"]
    before = await reports.version(story.conversation.id)
    await story.store.sessions.append(live, [Message("user", "More")])
    assert await reports.version(story.conversation.id) != before
    assert await reports.last_seq() > 0


async def test_spending_queues_and_parked_items(story: Story) -> None:
    reports = story.store.reports
    (spending,) = await reports.spending(since=time.time() - 3600, by=["day", "model"])
    assert spending.day == time.strftime("%Y-%m-%d")
    assert (spending.calls, spending.prompt_tokens, spending.usd, spending.unpriced_calls) == (
        2,
        3_000,
        0.25,
        1,
    )
    assert await reports.spending(since=time.time() + 2 * 86_400, by=["person"]) == []
    status = await reports.queue_status(since=0.0)
    assert (status.waiting, status.undelivered, status.parked_messages, status.parked_replies) == (0, 1, 1, 1)
    assert (status.compactions, status.freed_tokens) == (1, 1_700)
    parked = await reports.parked(limit=5)
    assert {(item.kind, item.id, item.chat_id, item.text) for item in parked} == {
        ("message", "msg_bad", "77", "Bad"),
        ("reply", "out_1", "77", "Late."),
    }
    summary = await reports.summary(midnight=0.0)
    assert (summary.conversations, summary.waiting, summary.parked) == (1, 0, 2)
    assert (summary.today.calls, summary.today.usd) == (2, 0.25) and summary.bytes > 0
    assert summary.last_compaction.tokens_after == 300
    assert await story.store.inbox.counts() == {("telegram", "parked"): 1}
    assert await story.store.inbox.latest_ids("telegram", limit=5) == {CHAT: "100"}
    assert not await story.store.inbox.is_superseded("msg_4x")


async def test_a_snapshot_does_not_see_later_messages(story: Story) -> None:
    def read() -> tuple[int, list[str], list[str]]:
        with story.store.export.snapshot() as snapshot:
            (overview,) = snapshot.conversations(person="telegram:7")
            asyncio.run_coroutine_threadsafe(
                story.store.sessions.append(story.child.id, [Message("user", "Later")]), loop
            ).result(10)
            own = [message.id for message in snapshot.messages(overview.conversation.id, since=12.0)]
            every = [
                message.id for message in snapshot.messages(overview.conversation.id, every_session=True)
            ]
            return len(snapshot.sessions(overview.conversation.id)), own, every

    loop = asyncio.get_running_loop()
    assert await asyncio.to_thread(read) == (2, ["msg_3", "msg_4"], ["msg_1", "msg_2", "msg_3", "msg_4"])


async def test_an_import_is_stored_once(gateway_store: SqlStore) -> None:
    address = address_of("telegram", "1")
    said = [
        Message("user", f"text {n}", id=message_id(address, str(n)), created_at=float(n)) for n in range(600)
    ]
    session = ImportedSession(session_id(address), 0.0, said)
    imported = ImportedConversation(address, "ada", [session], session.id)
    assert (await gateway_store.imports.preview(imported)).messages == 600
    assert (await gateway_store.imports.add(imported)).is_new
    again = await gateway_store.imports.add(imported)
    assert (again.is_new, again.messages, again.known) == (False, 0, 600)
    assert [hit.message.id for hit in await gateway_store.sessions.search('"text 7"')] == [said[7].id]


async def test_leases_and_fences(gateway_store: SqlStore) -> None:
    leases = gateway_store.leases
    conversation = await gateway_store.sessions.open_conversation(Address("web", "1"), person="ada")
    assert await leases.acquire(conversation.id, holder="a", seconds=60) == 1
    assert await leases.acquire(conversation.id, holder="a", seconds=60) == 1
    assert await leases.acquire(conversation.id, holder="b", seconds=60) is None
    fenced = gateway_store.fenced(Fence(conversation.id, 1))
    await fenced.sessions.append(conversation.live_session_id, [Message("user", "mine")])
    await leases.release(conversation.id, holder="a")
    await leases.renew([conversation.id], holder="a", seconds=60)
    assert await leases.acquire(conversation.id, holder="b", seconds=60) == 2
    with pytest.raises(LeaseLost):
        await fenced.sessions.append(conversation.live_session_id, [Message("user", "zombie")])
    assert len(await gateway_store.sessions.history(conversation.live_session_id)) == 1
    await leases.expire_all()
    assert await leases.acquire(conversation.id, holder="a", seconds=60) == 3


async def test_attempts_and_limits(gateway_store: SqlStore) -> None:
    inbox, limits = gateway_store.inbox, QueueLimits(total=3, per_person=2)
    for number, author in enumerate("aab"):
        payload = {"author": {"id": author}}
        await inbox.add(InboxMessage(f"msg_{number}", "telegram", payload, CHAT, str(number)), limits=limits)
    for author, full in (("a", 2), ("c", 3)):
        with pytest.raises(QueueFull) as refused:
            await inbox.add(InboxMessage("x", "telegram", {"author": {"id": author}}, CHAT), limits=limits)
        assert f"({full} are" in str(refused.value)
    assert [await inbox.start_attempt("msg_0") for _ in range(2)] == [1, 2]
    await inbox.cancel_attempt("msg_0")
    await inbox.cancel_attempt("msg_0", 5)
    assert [message.attempts for message in await inbox.waiting("telegram")] == [0, 0, 0]
    assert not await inbox.replace_payload("msg_9", {}) and await inbox.replace_payload("msg_1", {})


async def test_values_that_are_replaced(gateway_store: SqlStore) -> None:
    for tokens in (10, 20):
        await gateway_store.sessions.learn_window(LearnedWindow("m", 100, tokens, True, 1.0, "here"))
    assert await gateway_store.sessions.learned_windows() == [LearnedWindow("m", 100, 20, True, 1.0, "here")]
    for until in (10.0, 20.0):
        await gateway_store.access.add_sign_out("digest", until=until, now=1.0)
    assert await gateway_store.access.sign_outs() == {"digest"}
    request = PairingRequest("telegram", "7", "Ada\0", 1.0, 9.0)
    assert await gateway_store.access.ask(request, "code", AskingLimits(3, 60.0, 5))
    assert await gateway_store.access.pending(now=2.0) == [request]


async def test_health(story: Story) -> None:
    health = story.store.health
    await health.check_writable()
    await health.check_integrity()
    assert health.damage == ""
    assert await health.rebuild_index() == 4
    await health.finish_index()
    diagnosis = await health.diagnose()
    assert (diagnosis.index_damage, [item.id for item in diagnosis.parked]) == (None, ["msg_bad", "out_1"])
    assert [hit.message.id for hit in await story.store.sessions.search("plans")] == ["msg_1"]
