"""Processes that die, in a world that stays: the chat service and the store.

Everything that a process does to the world is a step, before it takes effect and after. A process that dies at a step
takes no other: what it had under way is never heard of. The next one starts on what is there.
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
from gateway.store.ports import GatewayStore, InboxMessage, Kind, Outbox, OutboxItem
from gateway.store.sqlite.store import SqliteStore
from gateway.types import Place
from tests.chat.chat_room import ALICE, FAST
from tests.chat.service import ChatService
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


class Life:
    """Of one process: `done` counts what it did to the world, `fails` says what of that fails for now."""

    def __init__(self, dies_at: int | None) -> None:
        self.steps = 0
        self.done: Counter[str] = Counter()
        self.fails: dict[str, Exception] = {}
        self.died = asyncio.Event()
        self.under_way: set[asyncio.Future[object]] = set()
        """What is out of the process's hands by now."""
        self._dies_at = dies_at

    def die(self) -> None:
        self.died.set()

    async def step(self) -> None:
        self.steps += 1
        if self.steps == self._dies_at:
            self.die()
        if self.died.is_set():
            await asyncio.get_running_loop().create_future()


class _Mortal:
    """Does what the real one does, for as long as the process lives."""

    def __init__(self, real: object, life: Life) -> None:
        self._real = real
        self._life = life

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._real, name)
        return self._in_steps(name, attribute) if name in _VERBS else attribute

    def _in_steps(
        self, name: str, verb: Callable[..., Awaitable[object]]
    ) -> Callable[..., Awaitable[object]]:
        async def in_steps(*arguments: Any, **named: Any) -> object:
            await self._life.step()
            if error := self._life.fails.get(name):
                raise error
            self._life.done[name] += 1
            under_way = asyncio.ensure_future(verb(*arguments, **named))
            self._life.under_way.add(under_way)
            outcome = await asyncio.shield(under_way)
            self._life.under_way.discard(under_way)
            await self._life.step()
            return outcome

        return in_steps


class World:
    def __init__(
        self, store: GatewayStore, service: ChatService, conversation: Conversation, timing: Timing
    ) -> None:
        self.store = store
        self.service = service
        self.conversation = conversation
        self.timing = timing
        self.deaths_in_doubt = 0
        """So often a process died while nobody could know whether something had been sent."""

    @classmethod
    async def made(
        cls,
        service: ChatService,
        *,
        place: Place = ALICE,
        timing: Timing = AT_ONCE,
        file: Path | None = None,
    ) -> World:
        store: GatewayStore = await temporary_store() if file is None else await SqliteStore.open(file)
        address = Address(service.platform, place.chat_id)
        conversation = await store.sessions.open_conversation(address, person="memory:alice")
        world = cls(store, service, conversation, timing)
        await world.hears(QUESTION, place, "p1")
        return world

    async def hears(self, message_id: str, place: Place = ALICE, number: str = "") -> None:
        """A message was taken; its turn has not ended."""
        await self.store.inbox.add(InboxMessage(message_id, self.service.platform, {}, place, number))

    async def leaves(self, *texts: str, kind: Kind = "notice") -> None:
        """On their way, under the ids `out_0`, `out_1` and so on."""
        about = {"conversation_id": self.conversation.id, "turn_id": QUESTION}
        for number, text in enumerate(texts):
            await self.store.outbox.add(f"out_{number}", **about, kind=kind, content=text)

    async def run(self, script: Script, *, dies_at: int | None = None) -> bool:
        """One process, from its start to its end or its death. Whether it died."""
        life, others = Life(dies_at), asyncio.all_tasks()
        process = Process(self, life)
        working = asyncio.create_task(process.work(script))
        dying = asyncio.create_task(life.died.wait())
        await asyncio.wait([working, dying], return_when=asyncio.FIRST_COMPLETED)
        died = life.died.is_set()
        if not died:
            await working
        under_way = life.under_way if died else set()
        await _end(asyncio.all_tasks() - others - under_way)
        if died:
            await asyncio.gather(*under_way, return_exceptions=True)
            await self._bury()
        return died

    async def open(self) -> list[OutboxItem]:
        return await self.store.outbox.undelivered(self.service.platform)

    async def states(self) -> dict[str, str]:
        """Of everything that was ever on its way, but for what had to go."""
        return dict(await self._rows("id, state"))

    async def outbox_reads(self, wanted: Callable[[dict[str, str]], bool]) -> None:
        """Waits until that is written down."""
        async with asyncio.timeout(10):
            while not wanted(await self.states()):
                pass

    async def has_open(self, wanted: Callable[[list[OutboxItem]], bool]) -> None:
        """The same of what is still open."""
        async with asyncio.timeout(10):
            while not wanted(await self.open()):
                pass

    async def said(self) -> str:
        """All that the model said, as it is stored."""
        history = await self.store.sessions.history(self.conversation.live_session_id)
        return "".join(message.content for message in history if message.role == "assistant")

    async def _bury(self) -> None:
        """Messages of which nothing was written down are there all the same."""
        self.deaths_in_doubt += any(outgoing.progress.state == "sending" for outgoing in await self.open())
        known = {message_id for (ids,) in await self._rows("shown_in") for message_id in json.loads(ids)}
        for message in self.service.messages:
            message.is_ghost |= message.id not in known

    async def _rows(self, columns: str) -> list[Any]:
        database = cast(SqliteStore, self.store).database
        return await database.read(
            lambda connection: connection.execute(f"SELECT {columns} FROM outbox").fetchall()
        )


class Process:
    """A gateway, as far as showing goes: its turns are told by a script."""

    def __init__(self, world: World, life: Life) -> None:
        self.world = world
        self.life = life
        self._sessions = cast(SessionStore, _Mortal(world.store.sessions, life))
        self._hub = EventHub()
        self.outbox = cast(Outbox, _Mortal(world.store.outbox, life))
        port = cast(ChatPort, _Mortal(world.service, life))
        self.delivery = DeliveryManager(self._hub, port, self.outbox, timing=world.timing)

    async def work(self, script: Script) -> None:
        await self.delivery.recover()
        await script(self)
        await self.delivery.close()

    def play(self, *events: TurnEvent) -> None:
        self.play_in(self.world.conversation.id, *events)

    def play_in(self, conversation_id: str, *events: TurnEvent) -> None:
        for event in events:
            self._hub.publish(conversation_id, event)

    def begin(self, place: Place = ALICE, message_id: str = QUESTION) -> None:
        self.delivery.follow(self.world.conversation.id, place)
        self.delivery.map_reply(message_id, "p1")
        self.play(TurnStarted(message_id, "hi"))

    async def store(self, step_id: str, text: str, *, is_last: bool = True) -> None:
        message = Message("assistant", text, id=step_id)
        session_id = self.world.conversation.live_session_id
        settles = [QUESTION] if is_last else []
        await self._sessions.append(session_id, [message], answers=QUESTION, settles=settles)

    async def answer(
        self, steps: list[str], sizes: list[int], pauses: list[int], *, place: Place = ALICE
    ) -> None:
        """A turn, from where it is stored on: each step in pieces, with time to show them, and a tool in between."""
        stored = await self.world.store.sessions.known([step_id(number) for number in range(len(steps))])
        if step_id(len(steps) - 1) in stored:
            return
        self.begin(place)
        for number, text in enumerate(steps):
            if step_id(number) in stored:
                continue
            await self.write(number, text, sizes, pauses)
            is_last = number == len(steps) - 1
            await self.store(step_id(number), text, is_last=is_last)
            if is_last:
                self.play(TurnDone(text))
            else:
                self.play(ToolStarted(f"c{number}", "tool", "{}"))
                await _idly(pauses[0])
                self.play(ToolFinished(f"c{number}", "tool", True, "", 0.1))

    async def write(self, number: int, text: str, sizes: list[int], pauses: list[int]) -> None:
        """A step that is not stored yet."""
        self.play(StepStarted(step_id(number)))
        position = count = 0
        while position < len(text):
            size = sizes[count % len(sizes)]
            self.play(TextDelta(text[position : position + size]))
            position += size
            await _idly(pauses[count % len(pauses)])
            count += 1


async def nothing_new(process: Process) -> None:
    """Only what is left."""


def step_id(number: int) -> str:
    return id_from("msg", QUESTION, str(number))


async def _idly(rounds: int) -> None:
    for _ in range(rounds):
        await asyncio.sleep(0)


async def _end(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
