"""Processes that crash at a chosen step, on a chat service and a store that survive.

Each call of the service or store is two steps, one before and one after it takes effect. A process that crashes at a
step makes no further call and never sees the result of a call in flight. The next process starts on what is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from agent.events import StepStarted, TextDelta, ToolFinished, ToolStarted, TurnDone, TurnEvent, TurnStarted
from agent.ids import id_from
from agent.messages import Message
from agent.store import Address, Conversation, SessionStore
from gateway.chat.adapter import ChatPort
from gateway.chat.delivery.manager import DeliveryManager
from gateway.chat.delivery.pacing import Timing
from gateway.core.events import EventHub
from gateway.store.ports import GatewayStore, InboxMessage, Outbox, OutboxItem, OutboxKind
from gateway.store.sqlite.store import SqliteStore
from gateway.types import Place
from tests.support.chat_harness import ALICE, FAST
from tests.support.chat_service import ChatService
from tests.support.stores import temporary_store

AT_ONCE = replace(
    FAST,
    first_text=0.0,
    message_gap=0.0,
    status_after=0.0,
    typing_after=60.0,
    first_backoff=0.0,
    max_backoff=0.0,
    min_pause=0.0,
)
QUESTION = "msg_question"
_VERBS = {
    "send",
    "edit",
    "delete",
    "send_file",
    "save_progress",
    "discard_unfinished",
    "undelivered",
    "append",
    "add",
}

Script = Callable[["Process"], Awaitable[None]]


class CrashSchedule:
    """Of one process: `done` counts what it did to the harness, `fails` says what of that fails for now."""

    def __init__(self, crash_at: int | None) -> None:
        self.steps = 0
        self.done: Counter[str] = Counter()
        self.fails: dict[str, Exception] = {}
        self.crashed = asyncio.Event()
        self.in_flight: set[asyncio.Future[object]] = set()
        """Calls whose effect can no longer be prevented."""
        self._dies_at = crash_at

    def crash(self) -> None:
        self.crashed.set()

    async def step(self) -> None:
        self.steps += 1
        if self.steps == self._dies_at:
            self.crash()
        if self.crashed.is_set():
            await asyncio.get_running_loop().create_future()


class _CrashingProxy:
    """Forwards calls to a real object until the process crashes."""

    def __init__(self, real: object, schedule: CrashSchedule) -> None:
        self._real = real
        self._schedule = schedule

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._real, name)
        return self._with_steps(name, attribute) if name in _VERBS else attribute

    def _with_steps(
        self, name: str, verb: Callable[..., Awaitable[object]]
    ) -> Callable[..., Awaitable[object]]:
        async def with_steps(*arguments: Any, **named: Any) -> object:
            await self._schedule.step()
            if error := self._schedule.fails.get(name):
                raise error
            self._schedule.done[name] += 1
            in_flight = asyncio.ensure_future(verb(*arguments, **named))
            self._schedule.in_flight.add(in_flight)
            outcome = await asyncio.shield(in_flight)
            self._schedule.in_flight.discard(in_flight)
            await self._schedule.step()
            return outcome

        return with_steps


class CrashHarness:
    def __init__(
        self, store: GatewayStore, service: ChatService, conversation: Conversation, timing: Timing
    ) -> None:
        self.store = store
        self.service = service
        self.conversation = conversation
        self.timing = timing
        self.doubtful_crashes = 0
        """Crashes while a send call was in flight."""

    @classmethod
    async def create(
        cls,
        service: ChatService,
        *,
        place: Place = ALICE,
        timing: Timing = AT_ONCE,
        file: Path | None = None,
    ) -> CrashHarness:
        store: GatewayStore = await temporary_store() if file is None else await SqliteStore.open(file)
        address = Address(service.platform, place.chat_id)
        conversation = await store.sessions.open_conversation(address, person="memory:alice")
        harness = cls(store, service, conversation, timing)
        await harness.add_message(QUESTION, place, "p1")
        return harness

    async def add_message(self, message_id: str, place: Place = ALICE, number: str = "") -> None:
        """Add an inbox message whose turn has not ended."""
        await self.store.inbox.add(InboxMessage(message_id, self.service.platform, {}, place, number))

    async def add_items(self, *texts: str, kind: OutboxKind = "notice") -> None:
        """Add outbox items with the ids `out_0`, `out_1` and so on."""
        about = {"conversation_id": self.conversation.id, "turn_id": QUESTION}
        for number, text in enumerate(texts):
            await self.store.outbox.add(f"out_{number}", **about, kind=kind, content=text)

    async def run(self, script: Script, *, crash_at: int | None = None) -> bool:
        """Run one process to its end or its crash. Return whether it crashed."""
        schedule, others = CrashSchedule(crash_at), asyncio.all_tasks()
        process = Process(self, schedule)
        working = asyncio.create_task(process.work(script))
        dying = asyncio.create_task(schedule.crashed.wait())
        await asyncio.wait([working, dying], return_when=asyncio.FIRST_COMPLETED)
        crashed = schedule.crashed.is_set()
        if not crashed:
            await working
        in_flight = schedule.in_flight if crashed else set()
        await _end(asyncio.all_tasks() - others - in_flight)
        if crashed:
            await asyncio.gather(*in_flight, return_exceptions=True)
            await self._mark_ghosts()
        return crashed

    async def undelivered(self) -> list[OutboxItem]:
        return await self.store.outbox.undelivered(self.service.platform)

    async def states(self) -> dict[str, str]:
        """Return the states of all outbox items, by id; transient ones are not kept."""
        return dict(await self._rows("id, state"))

    async def wait_for_states(self, wanted: Callable[[dict[str, str]], bool]) -> None:
        """Wait until the saved states fulfil the condition."""
        async with asyncio.timeout(10):
            while not wanted(await self.states()):
                pass

    async def wait_for_undelivered(self, wanted: Callable[[list[OutboxItem]], bool]) -> None:
        """Wait until the undelivered items fulfil the condition."""
        async with asyncio.timeout(10):
            while not wanted(await self.undelivered()):
                pass

    async def stored_text(self) -> str:
        """Return the stored text of the assistant."""
        history = await self.store.sessions.history(self.conversation.live_session_id)
        return "".join(message.content for message in history if message.role == "assistant")

    async def _mark_ghosts(self) -> None:
        """Mark the visible messages whose ids were not saved."""
        self.doubtful_crashes += any(
            outgoing.progress.state == "sending" for outgoing in await self.undelivered()
        )
        known = {message_id for (ids,) in await self._rows("shown_in") for message_id in json.loads(ids)}
        for message in self.service.messages:
            message.is_ghost |= message.id not in known

    async def _rows(self, columns: str) -> list[Any]:
        database = cast(SqliteStore, self.store).database
        return await database.read(
            lambda connection: connection.execute(f"SELECT {columns} FROM outbox").fetchall()
        )


class Process:
    """The delivery of one gateway process; a script publishes its turns."""

    def __init__(self, harness: CrashHarness, schedule: CrashSchedule) -> None:
        self.harness = harness
        self.schedule = schedule
        self._sessions = cast(SessionStore, _CrashingProxy(harness.store.sessions, schedule))
        self._hub = EventHub()
        self.outbox = cast(Outbox, _CrashingProxy(harness.store.outbox, schedule))
        port = cast(ChatPort, _CrashingProxy(harness.service, schedule))
        self.delivery = DeliveryManager(self._hub, port, self.outbox, timing=harness.timing)

    async def work(self, script: Script) -> None:
        await self.delivery.recover()
        await script(self)
        await self.delivery.close()

    def publish(self, *events: TurnEvent) -> None:
        self.publish_in(self.harness.conversation.id, *events)

    def publish_in(self, conversation_id: str, *events: TurnEvent) -> None:
        for event in events:
            self._hub.publish(conversation_id, event)

    def start_turn(self, place: Place = ALICE, message_id: str = QUESTION) -> None:
        self.delivery.follow(self.harness.conversation.id, place)
        self.delivery.map_reply(message_id, "p1")
        self.publish(TurnStarted(message_id, "hi"))

    async def store(self, step_id: str, text: str, *, is_last: bool = True) -> None:
        message = Message("assistant", text, id=step_id)
        session_id = self.harness.conversation.live_session_id
        settles = [QUESTION] if is_last else []
        await self._sessions.append(session_id, [message], answers=QUESTION, settles=settles)

    async def answer(
        self, steps: list[str], sizes: list[int], pauses: list[int], *, place: Place = ALICE
    ) -> None:
        """Run a turn from its first step that is not stored: each step in chunks, with a tool between two steps."""
        stored = await self.harness.store.sessions.known([step_id(number) for number in range(len(steps))])
        if step_id(len(steps) - 1) in stored:
            return
        self.start_turn(place)
        for number, text in enumerate(steps):
            if step_id(number) in stored:
                continue
            await self.write(number, text, sizes, pauses)
            is_last = number == len(steps) - 1
            await self.store(step_id(number), text, is_last=is_last)
            if is_last:
                self.publish(TurnDone(text))
            else:
                self.publish(ToolStarted(f"c{number}", "tool", "{}"))
                await _yield_to_loop(pauses[0])
                self.publish(ToolFinished(f"c{number}", "tool", True, "", 0.1))

    async def write(self, number: int, text: str, sizes: list[int], pauses: list[int]) -> None:
        """Publish the text of a step in chunks."""
        self.publish(StepStarted(step_id(number)))
        position = count = 0
        while position < len(text):
            size = sizes[count % len(sizes)]
            self.publish(TextDelta(text[position : position + size]))
            position += size
            await _yield_to_loop(pauses[count % len(pauses)])
            count += 1


async def only_recover(process: Process) -> None:
    """Deliver only what earlier processes left."""


def step_id(number: int) -> str:
    return id_from("msg", QUESTION, str(number))


async def _yield_to_loop(rounds: int) -> None:
    for _ in range(rounds):
        await asyncio.sleep(0)


async def _end(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
