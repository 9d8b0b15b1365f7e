"""What happens after the process has died: the database as it was at that moment, and a new gateway on it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog

from agent.errors import LeaseLost
from agent.events import (
    Notice,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnEvent,
    TurnFailed,
    TurnStarted,
)
from agent.ids import id_from
from agent.messages import Message, ToolCall
from agent.store import Address
from agent.testing import ScriptedLLM, Step
from agent.tool import ToolContext, tool
from gateway.core.conversation_queue import LeaseHolder
from gateway.core.gateway import Gateway
from gateway.core.retry import MAX_ATTEMPTS, SUSPECT_AFTER
from gateway.core.turns import Busy
from gateway.store.ports import DeliveryProgress, Fence, InboxMessage, OutboxItem
from gateway.store.sqlite.store import SqliteStore
from gateway.types import OWNER, InboundMessage, Place, parse_command
from tests.support.agents import make_agent
from tests.support.gateways import make_gateway

HERE = Address("web", "desk")
runs: list[str] = []


@tool(effects=True)
async def launch(ctx: ToolContext, what: str) -> str:
    """Starts something that cannot be taken back, and never comes to its end."""
    runs.append(what)
    await asyncio.Event().wait()
    return "launched"


@dataclass
class RecoveryHarness:
    gateway: Gateway
    store: SqliteStore
    llm: ScriptedLLM
    path: Path

    async def send(self, text: str, at: Address = HERE, **more: object) -> InboundMessage:
        inbound = InboundMessage(at, OWNER, text, **more)  # type: ignore[arg-type]
        await self.gateway.receive(inbound)
        return inbound

    async def submit(self, text: str, message_id: str) -> None:
        """Queue a message that is in the inbox already."""
        conversation = await self.store.sessions.open_conversation(HERE, person=OWNER)
        await self.gateway.submit(
            InboundMessage(HERE, OWNER, text, message_id, parse_command(text)), conversation
        )

    async def conversation_id(self, at: Address = HERE) -> str:
        return (await self.store.sessions.open_conversation(at, person=OWNER)).id

    async def until(self, *kinds: type[TurnEvent], count: int = 1, at: Address = HERE) -> list[TurnEvent]:
        seen: list[TurnEvent] = []
        with self.gateway.hub.watch(await self.conversation_id(at), after=0) as watcher:
            while sum(isinstance(event, kinds) for event in seen) < count:
                seen.append((await asyncio.wait_for(anext(watcher), 10)).event)
        return seen

    async def said(self) -> list[tuple[str, str]]:
        transcript = await self.store.sessions.transcript(await self.conversation_id())
        return [(message.role, message.content) for message in transcript]

    async def idle(self) -> None:
        async with asyncio.timeout(10):
            while self.gateway._queues:  # noqa: ASYNC110 - a turn that lost its lease publishes no event
                await asyncio.sleep(0)

    def query(self, sql: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(sql).fetchall()

    def as_it_is_now(self) -> Path:
        """A copy of the file: what a process finds that starts after this one was killed at this moment."""
        copy = self.path.with_name(f"after_{self.path.name}")
        with closing(sqlite3.connect(self.path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        return copy


@asynccontextmanager
async def open_harness(
    path: Path, *steps: Step, busy: Busy = "queue", drain: float = 0.0, pause: float = 0.0
) -> AsyncIterator[RecoveryHarness]:
    store, llm = await SqliteStore.open(path), ScriptedLLM(steps)
    await store.leases.expire_all()
    agent = make_agent(llm, store.sessions, [launch])
    gateway = make_gateway(
        agent,
        store,
        path.parent / "workspaces",
        config={"gateway": {"busy": busy, "drain_seconds": drain}},
        suspect_delay=pause,
    )
    try:
        yield RecoveryHarness(gateway, store, llm, path)
    finally:
        await gateway.close()
        await store.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def never() -> list[str | asyncio.Event]:
    return ["Well, ", asyncio.Event(), "."]


async def test_the_turn_and_what_waited_behind_it_are_answered_once_each_in_order(path: Path) -> None:
    """The first message was being answered, the others waited. A partial answer is discarded and written again."""
    async with open_harness(path, never()) as before:
        for text in ("one", "two", "three"):
            await before.send(text)
        await before.until(TextDelta)
        left = before.as_it_is_now()
    async with open_harness(left, "Answer one.", "Answer two.", "Answer three.") as after:
        await after.gateway.recover("web")
        await after.until(TurnDone, count=3)
        expected = [
            (role, text)
            for n in ("one", "two", "three")
            for role, text in (("user", n), ("assistant", f"Answer {n}."))
        ]
        assert await after.said() == expected
        assert await after.store.inbox.waiting("web") == []


async def test_a_call_without_a_result_is_not_run_again(path: Path) -> None:
    """The model is told that the effect of the call is unknown, and decides."""
    runs.clear()
    call = ToolCall("c1", "launch", json.dumps({"what": "rocket"}))
    async with open_harness(path, ["Here goes.", call]) as before:
        await before.send("Launch it")
        await before.until(ToolStarted)
        while not runs:  # noqa: ASYNC110 - the tool has no way to call us
            await asyncio.sleep(0)
        left = before.as_it_is_now()
    async with open_harness(left, "I do not know whether it flies.") as after:
        await after.gateway.recover("web")
        await after.until(TurnDone)
        assert runs == ["rocket"]
        (request,) = after.llm.requests
        assert "Whether it took effect is unknown" in str(request.messages[-1])
        roles = [role for role, _ in await after.said()]
        assert roles == ["user", "assistant", "tool", "assistant"]


async def test_a_command_that_was_under_way_is_not_carried_out_again(path: Path) -> None:
    """`/undo` twice would take back more than was meant."""
    async with open_harness(path, "One.", "Two.") as before:
        await before.send("first")
        await before.send("second")
        await before.until(TurnDone, count=2)
        taken = InboxMessage(
            "msg_command",
            "web",
            {"address": {"platform": "web", "chat_id": "desk"}, "person": OWNER, "text": "/undo"},
        )
        await before.store.inbox.add(taken)
        await before.store.inbox.start_attempt(taken.id)
        left = before.as_it_is_now()
    async with open_harness(left) as after:
        await after.gateway.recover("web")
        events = await after.until(TurnDone)
        (notice,) = [event for event in events if isinstance(event, Notice)]
        assert "may or may not have taken effect" in notice.text
        assert [text for role, text in await after.said() if role == "user"] == ["first", "second"]


async def test_a_message_that_ends_the_process_each_time_is_parked(path: Path) -> None:
    """It is told to its author and to the operator, and the next one is answered."""
    async with open_harness(path, never()) as before:
        poison = await before.send("poison")
        await before.until(TextDelta)
        left = before.as_it_is_now()
    for _ in range(MAX_ATTEMPTS - 1):
        async with open_harness(left, never()) as again:
            await again.gateway.recover("web")
            await again.until(TextDelta)
            left = again.as_it_is_now()
    async with open_harness(left, "Fine.") as after:
        await after.gateway.recover("web")
        (told,) = [event for event in await after.until(TurnFailed) if isinstance(event, TurnFailed)]
        assert "kept" in told.error
        assert [parked.id for parked in await after.store.inbox.parked()] == [poison.id]
        await after.send("Are you there?")
        assert (await after.until(TurnDone))[-1] == TurnDone("Fine.")


async def test_what_is_parked_says_that_a_half_answer_may_be_seen(path: Path) -> None:
    """The process died while the beginning was sent: whether it arrived is unknown, so it cannot be taken away."""
    async with open_harness(path, never()) as harness:
        poison = await harness.send("poison")
        await harness.until(TextDelta)
        conversation = await harness.conversation_id()
        sending = OutboxItem(
            "out_1", conversation, poison.id, "", Place("1"), "text", None, DeliveryProgress("sending")
        )
        await harness.store.outbox.save_progress("telegram", sending)
        for _ in range(MAX_ATTEMPTS):
            await harness.store.inbox.start_attempt(poison.id)
        left = harness.as_it_is_now()
    async with open_harness(left) as after:
        await after.gateway.recover("web")
        (told,) = [event for event in await after.until(TurnFailed) if isinstance(event, TurnFailed)]
        assert "is not complete" in told.error


async def test_after_two_deaths_a_death_counts_for_one_message_only(path: Path) -> None:
    """Three were at work when the process died, twice. Only the one that is at work at each later death is parked."""
    addresses = [Address("web", f"desk {number}") for number in range(3)]
    async with open_harness(path, never(), never(), never()) as before:
        killer, *innocent = [await before.send("hello", at=address) for address in addresses]
        for address in addresses:
            await before.until(TextDelta, at=address)
        left = before.as_it_is_now()
    async with open_harness(left, never(), never(), never()) as again:
        await again.gateway.recover("web")
        for address in addresses:
            await again.until(TextDelta, at=address)
        left = again.as_it_is_now()
    for _ in range(MAX_ATTEMPTS - SUSPECT_AFTER):
        async with open_harness(left, never()) as again:
            await again.gateway.recover("web")
            await again.until(TextDelta, at=addresses[0])
            attempts = dict(again.query("SELECT id, attempts FROM inbox"))  # type: ignore[arg-type]
            assert [attempts[message.id] for message in innocent] == [SUSPECT_AFTER, SUSPECT_AFTER]
            left = again.as_it_is_now()
    async with open_harness(left, "Fine.", "Fine.") as after:
        await after.gateway.recover("web")
        await after.until(TurnFailed, at=addresses[0])
        for address in addresses[1:]:
            assert (await after.until(TurnDone, at=address))[-1] == TurnDone("Fine.")
        assert [parked.id for parked in await after.store.inbox.parked()] == [killer.id]


async def test_a_stop_takes_back_only_what_this_process_began(path: Path) -> None:
    """A suspect that still waits for its turn keeps its count: it may be the one that kills."""
    async with open_harness(path, never()) as before:
        suspect = await before.send("hello")
        await before.until(TextDelta)
        for _ in range(3):
            await before.store.inbox.start_attempt(suspect.id)
        left = before.as_it_is_now()
    async with open_harness(left, never(), pause=3_600.0) as again:
        await again.gateway.recover("web")
        while not again.gateway.active_turns:  # noqa: ASYNC110 - a waiting suspect publishes no event
            await asyncio.sleep(0)
    async with open_harness(left) as after:
        assert after.query("SELECT attempts FROM inbox") == [(4,)]


async def test_orderly_stops_do_not_count_as_crashes(path: Path) -> None:
    """A long answer that every restart interrupts is not given up on."""
    for number in range(MAX_ATTEMPTS + 1):
        async with open_harness(path, never()) as harness:
            if number:
                await harness.gateway.recover("web")
            else:
                await harness.send("patience")
            await harness.until(TextDelta)
    async with open_harness(path, "At last.") as after:
        await after.gateway.recover("web")
        assert (await after.until(TurnDone))[-1] == TurnDone("At last.")


async def test_what_broke_down_after_some_of_it_was_seen_is_not_begun_anew(path: Path) -> None:
    """People would read two answers. What was seen is what is stored."""

    def breaks(request: object) -> Step:
        raise ZeroDivisionError

    call = ToolCall("c1", "unknown_tool", "{}")
    async with open_harness(path, ["Let me see.", call], breaks, "Never.") as harness:
        await harness.send("hello")
        (told,) = [event for event in await harness.until(TurnFailed) if isinstance(event, TurnFailed)]
        assert "broke down" in told.error and "/retry" in told.error
        assert [text for role, text in await harness.said() if role == "assistant"] == ["Let me see."]
        assert len(await harness.store.inbox.parked()) == 1


async def test_steps_are_numbered_on_behind_the_highest_that_is_stored(path: Path) -> None:
    """A call that was refused as too long leaves a gap. A number used twice would cost the answer."""
    async with open_harness(path, never()) as before:
        inbound = await before.send("hello")
        await before.until(TextDelta)
        left = before.as_it_is_now()
    async with open_harness(left, "Done.") as after:
        session = (await after.store.sessions.open_conversation(HERE, person=OWNER)).live_session_id
        second = Message("assistant", "Shorter.", id=id_from("msg", inbound.id, "1"))
        await after.store.sessions.append(session, [second])
        await after.gateway.recover("web")
        assert (await after.until(TurnDone, TurnFailed))[-1] == TurnDone("Done.")


async def test_an_unreadable_row_keeps_nobody_from_starting(path: Path) -> None:
    """It is parked; the others are answered."""
    async with open_harness(path, "Fine.") as harness:
        await harness.store.inbox.add(InboxMessage("msg_strange", "web", {"what": "ever"}))
        taken = {"address": {"platform": "web", "chat_id": "desk"}, "person": OWNER, "text": "hello"}
        await harness.store.inbox.add(InboxMessage("msg_good", "web", taken))
        await harness.gateway.recover("web")
        assert (await harness.until(TurnDone))[-1] == TurnDone("Fine.")
        assert [parked.id for parked in await harness.store.inbox.parked()] == ["msg_strange"]


async def test_what_is_in_hand_is_not_taken_up_twice(path: Path) -> None:
    """A second window on the same conversation, in the same process."""
    gate = asyncio.Event()
    async with open_harness(path, ["One", gate, "."]) as harness:
        await harness.send("hello")
        await harness.until(TextDelta)
        await harness.gateway.recover("web")
        gate.set()
        await harness.until(TurnDone)
        await harness.idle()
        assert len(harness.llm.requests) == 1


async def test_a_stop_while_messages_are_given_to_the_turn_loses_none(path: Path) -> None:
    """Until they are stored they wait for a turn of their own."""
    gate = asyncio.Event()
    call = ToolCall("c1", "unknown_tool", "{}")
    async with open_harness(path, ["Hm. ", gate, call], "Both.", "B.", busy="steer") as harness:
        await harness.send("a")
        await harness.until(TextDelta)
        await harness.send("b")
        gate.set()
        conversation = await harness.conversation_id()
        with harness.gateway.hub.watch(conversation, after=0) as watcher:
            async for envelope in watcher:
                if isinstance(envelope.event, ToolFinished):
                    break
        harness.gateway.stop_turn(conversation)
        await harness.idle()
        assert [text for role, text in await harness.said() if role == "user"] == ["a", "b"]
        assert await harness.store.inbox.waiting("web") == []


async def test_the_store_is_waited_for_before_a_turn_begins(path: Path) -> None:
    """Accepted messages are answered when the store is writable again, without being sent again."""
    payload = {"address": {"platform": "web", "chat_id": "desk"}, "person": OWNER, "text": "hello"}
    async with open_harness(path, "Fine.") as harness:
        await harness.conversation_id()
        await harness.store.inbox.add(InboxMessage("msg_1", "web", payload))
        await _only_reading(harness.store, on=True)
        with structlog.testing.capture_logs() as logs:
            await harness.gateway.recover("web")
            async with asyncio.timeout(10):
                while not any(entry["event"] == "store.waited_for" for entry in logs):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        await _only_reading(harness.store, on=False)
        assert (await harness.until(TurnDone, TurnFailed))[-1] == TurnDone("Fine.")


async def _only_reading(store: SqliteStore, *, on: bool) -> None:
    """Like a file system that was remounted read-only."""
    writing = store.database._writing
    assert writing is not None
    await writing.run(lambda connection: connection.execute(f"PRAGMA query_only = {on:d}").fetchall())


async def test_a_message_delivered_again_is_taken_once(path: Path) -> None:
    """Its id is its identity, however often it comes."""
    async with open_harness(path, "Once.") as harness:
        first = await harness.send("hello", id="msg_1")
        await harness.until(TurnDone)
        await harness.gateway.receive(first)
        assert await harness.said() == [("user", "hello"), ("assistant", "Once.")]
        assert len(harness.llm.requests) == 1


async def test_the_answer_the_reply_and_the_end_of_the_turn_are_one_commit(path: Path) -> None:
    """The reply is committed at once: no crash can lose or duplicate it."""
    gate = asyncio.Event()
    place = Place("4711")
    async with open_harness(path, ["Fine", gate, "."]) as harness:
        await harness.store.inbox.add(InboxMessage("msg_1", "web", {"text": "x"}, place, "17"))
        await harness.submit("hello", "msg_1")
        await harness.until(TextDelta)
        look = """SELECT (SELECT count(*) FROM messages WHERE role = 'assistant'),
            (SELECT count(*) FROM outbox), (SELECT state FROM inbox)"""
        assert harness.query(look) == [(0, 0, "waiting")]
        gate.set()
        await harness.until(TurnDone)
        assert harness.query(look) == [(1, 1, "done")]
        (outgoing,) = await harness.store.outbox.undelivered("web")
        assert (outgoing.content, outgoing.place, outgoing.reply_to) == ("Fine.", place, "17")
        assert harness.query("SELECT id FROM messages WHERE role = 'assistant'") == [(outgoing.id,)]


async def test_a_failure_is_a_reply_too(path: Path) -> None:
    """The sentence about it is on its way in the same commit that ends the turn."""
    async with open_harness(path) as harness:
        await harness.store.inbox.add(InboxMessage("msg_1", "web", {"text": "x"}, Place("4711"), "17"))
        await harness.submit("/nonsense", "msg_1")
        await harness.until(TurnDone)
        (outgoing,) = await harness.store.outbox.undelivered("web")
        assert outgoing.kind == "notice" and "There is no /nonsense" in (outgoing.content or "")


async def test_a_stop_lets_running_answers_end(path: Path) -> None:
    """Within the time they are given. What waits is not begun any more."""
    gate = asyncio.Event()
    async with open_harness(path, ["Nearly", gate, " done."], drain=10.0) as harness:
        await harness.send("one")
        await harness.send("two")
        await harness.until(TextDelta)
        closing_down = asyncio.create_task(harness.gateway.close())
        await asyncio.sleep(0)
        gate.set()
        await asyncio.wait_for(closing_down, 5)
        assert await harness.said() == [("user", "one"), ("assistant", "Nearly done.")]
        assert [taken.payload["text"] for taken in await harness.store.inbox.waiting("web")] == ["two"]


async def test_a_stop_leaves_what_takes_longer_for_the_next_start(path: Path) -> None:
    """Its author is told, and half an answer is not stored as if it were one."""
    async with open_harness(path, never(), drain=0.01) as harness:
        await harness.send("one")
        await harness.until(TextDelta)
        await harness.gateway.close()
        events = await harness.until(TurnFailed)
        assert isinstance(events[-1], TurnFailed) and "continues this answer" in events[-1].error
        assert await harness.said() == [("user", "one")]
    async with open_harness(path, "Now then.") as after:
        await after.gateway.recover("web")
        await after.until(TurnDone)
        assert await after.said() == [("user", "one"), ("assistant", "Now then.")]


async def test_a_message_stopped_by_its_author_is_not_taken_up_again(path: Path) -> None:
    """/stop is an answer."""
    async with open_harness(path, never()) as harness:
        await harness.send("one")
        await harness.until(TextDelta)
        harness.gateway.stop_turn(await harness.conversation_id())
        await harness.until(TurnDone)
        assert await harness.store.inbox.waiting("web") == []
        assert await harness.said() == [("user", "one"), ("assistant", "Well, ")]


async def test_messages_given_to_a_running_turn_need_no_turn_of_their_own(path: Path) -> None:
    """After a crash they are in the history, not in line."""
    gate = asyncio.Event()
    call = ToolCall("c1", "todo_nothing", "{}")
    async with open_harness(path, ["Hm. ", gate, call], never(), busy="steer") as before:
        await before.send("a")
        await before.until(TextDelta)
        await before.send("b")
        gate.set()
        await before.until(TextDelta, count=2)
        left = before.as_it_is_now()
    async with open_harness(left, "Both.") as after:
        assert [taken.payload["text"] for taken in await after.store.inbox.waiting("web")] == ["a"]
        await after.gateway.recover("web")
        await after.until(TurnDone)
        assert [text for role, text in await after.said() if role == "user"] == ["a", "b"]


async def test_two_processes_never_work_on_one_conversation(path: Path) -> None:
    """The second waits for the first; and who was given up for dead cannot write any more."""
    async with open_harness(path, never()) as one, open_harness(path, "From the second.") as two:
        await one.send("to the first")
        await one.until(TextDelta)
        conversation = await one.conversation_id()
        assert await two.store.leases.acquire(conversation, holder="two", seconds=30) is None
        await two.store.leases.expire_all()  # the first is given up for dead
        await two.send("to the second")
        await two.until(TurnDone)
        one.gateway.stop_turn(conversation)
        await one.idle()
        answers = [text for role, text in await two.said() if role == "assistant"]
        assert answers == ["From the second."]


async def test_a_write_behind_an_old_fence_is_refused_whole(path: Path) -> None:
    """Every write checks the fence in its own transaction."""
    async with open_harness(path) as harness:
        conversation = await harness.store.sessions.open_conversation(HERE, person=OWNER)
        token = await harness.store.leases.acquire(conversation.id, holder="one", seconds=0)
        assert (
            await harness.store.leases.acquire(conversation.id, holder="two", seconds=30) == (token or 0) + 1
        )
        late = harness.store.fenced(Fence(conversation.id, token or 0))
        with pytest.raises(LeaseLost):
            await late.sessions.append(conversation.live_session_id, [Message("user", "late")])
        with pytest.raises(LeaseLost):
            await late.inbox.mark_done(["msg_1"])
        with pytest.raises(LeaseLost):
            await late.outbox.add(
                "out_1", conversation_id=conversation.id, turn_id="msg_1", kind="notice", content="late"
            )
        assert await harness.said() == []


async def test_the_same_holder_keeps_its_token_and_renews(path: Path) -> None:
    """Work left running in the background by one turn may still write during the next."""
    async with open_harness(path) as harness:
        conversation_id = await harness.conversation_id()
        holder = LeaseHolder(harness.store.leases)
        tokens: Sequence[int] = []
        for _ in range(2):
            async with holder.hold(conversation_id) as fence:
                tokens = [*tokens, fence.token]
        assert tokens[0] == tokens[1]
        await harness.store.leases.acquire(conversation_id, holder="one", seconds=0.001)
        await harness.store.leases.renew([conversation_id], holder="one", seconds=30)
        assert await harness.store.leases.acquire(conversation_id, holder="two", seconds=30) is None
        await holder.close()


async def test_a_lease_whose_release_failed_expires(path: Path) -> None:
    """The process renews its other lease, but not this one."""
    async with open_harness(path) as harness:
        left, held = [await harness.conversation_id(Address("web", name)) for name in ("left", "held")]
        holder = LeaseHolder(harness.store.leases, seconds=0.3)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(
                """
                CREATE TRIGGER refuse BEFORE UPDATE ON leases WHEN new.expires_at = 0
                BEGIN SELECT RAISE(ABORT, 'not now'); END
                """
            )
        async with holder.hold(held):
            async with holder.hold(left):
                pass
            async with asyncio.timeout(10):
                while await harness.store.leases.acquire(left, holder="two", seconds=30) is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert await harness.store.leases.acquire(held, holder="two", seconds=30) is None
        await holder.close()


async def test_a_stop_of_a_turn_that_another_process_has_taken_over_says_so(path: Path) -> None:
    """The lost lease is not taken for a store that refuses for a moment."""
    async with open_harness(path, never()) as one:
        inbound = await one.send("hello")
        await one.until(TextDelta)
        conversation = await one.conversation_id()
        await one.store.leases.expire_all()
        assert await one.store.leases.acquire(conversation, holder="two", seconds=30) is not None
        one.gateway.stop_turn(conversation)
        events = await one.until(TurnDone, TurnFailed)
        assert isinstance(events[-1], TurnFailed) and "Another process" in events[-1].error
        assert await one.store.inbox.is_waiting(inbound.id)


async def test_a_single_question_is_not_asked_again(path: Path) -> None:
    """The client of `hermes chat -q` is gone; an answer would only cost money."""
    async with open_harness(path, never()) as before:
        inbound = InboundMessage(Address("terminal", "once_1"), OWNER, "quick?")
        conversation = await before.gateway.receive(inbound)
        with before.gateway.hub.watch(conversation.id, after=0) as watcher:
            assert isinstance((await asyncio.wait_for(anext(watcher), 10)).event, TurnStarted)
        left = before.as_it_is_now()
    async with open_harness(left) as after:
        await after.gateway.recover("terminal")
        assert await after.store.inbox.waiting("terminal") == []
        assert after.llm.requests == []
