"""The queue of one conversation (the only queue between the inbox and a turn), and its lease."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from functools import partial
from itertools import takewhile

import structlog

from agent.errors import StoreError
from agent.ids import new_id
from gateway.core.retry import retry_store
from gateway.store.ports import Fence, Leases
from gateway.types import InboundMessage

Handler = Callable[["ConversationQueue", InboundMessage], Awaitable[None]]


class QueueEntry:
    """A message's position in the queue. The message itself follows once its attachments are read."""

    def __init__(self, queue: ConversationQueue, sender: str, is_due: Callable[[], bool]) -> None:
        self.sender = sender
        self.is_due = is_due
        """False while the message waits for its continuation; until then, later messages overtake it."""
        self.message: InboundMessage | None = None
        self._queue = queue

    def fill(self, message: InboundMessage) -> int:
        """Set the message, and return how many entries are due before it."""
        self.message = message
        return self._queue.wake_for(self)

    def drop(self) -> None:
        """Give up the position: the message needs no turn."""
        self._queue.discard(self)


class ConversationQueue:
    """Messages of one conversation that wait for their turn, and the task that runs one turn at a time.

    Every message is in the inbox as well: a message that this queue forgets is answered after the next start.
    """

    def __init__(self, conversation_id: str, handle: Handler, on_idle: Callable[[str], object]) -> None:
        self.conversation_id = conversation_id
        self._handle = handle
        self._on_idle = on_idle
        self._entries: list[QueueEntry] = []
        self._changed = asyncio.Event()
        self._turn: asyncio.Task[None] | None = None
        self._current: InboundMessage | None = None
        self._since = 0.0
        self._has_started = self._stopping = False
        self._worker: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> Sequence[InboundMessage]:
        """The complete messages that wait for their turn, in order."""
        return [entry.message for entry in self._entries if entry.message is not None]

    @property
    def current(self) -> tuple[InboundMessage, float] | None:
        """The message that is being answered, and since when."""
        return (self._current, self._since) if self._current is not None else None

    def count_of(self, sender: str) -> int:
        """Count this sender's entries."""
        return sum(entry.sender == sender for entry in self._entries)

    def reserve(self, sender: str, is_due: Callable[[], bool] = lambda: True) -> QueueEntry:
        """Append an entry whose message follows."""
        entry = QueueEntry(self, sender, is_due)
        self._entries.append(entry)
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name=f"conversation {self.conversation_id}")
        return entry

    def wake_for(self, entry: QueueEntry) -> int:
        """Wake the worker, and return how many entries are due before this one."""
        self._changed.set()
        before = takewhile(lambda other: other is not entry, self._entries)
        return sum(other.is_due() for other in before)

    def discard(self, entry: QueueEntry) -> None:
        self._entries = [other for other in self._entries if other is not entry]
        self._changed.set()

    def replace(self, message: InboundMessage) -> bool:
        """Replace a waiting message by its edited form. Returns False if it does not wait here."""
        for entry in self._entries:
            if entry.message is not None and entry.message.id == message.id:
                entry.message = message
                return True
        return False

    def first_while(self, is_wanted: Callable[[InboundMessage], bool]) -> Sequence[InboundMessage]:
        """Return the messages at the front for which `is_wanted` is true; they wait until `remove` is called."""
        due = [entry.message for entry in self._entries if entry.is_due()]
        complete = takewhile(lambda message: message is not None and is_wanted(message), due)
        return [message for message in complete if message is not None]

    def remove(self, messages: Sequence[InboundMessage]) -> None:
        """Remove messages that the running turn has read."""
        ids = {message.id for message in messages}
        self._entries = [
            entry for entry in self._entries if entry.message is None or entry.message.id not in ids
        ]

    def holds(self, message_id: str) -> bool:
        """Whether the message waits here or is being answered."""
        is_current = self._current is not None and self._current.id == message_id
        return is_current or any(waiting.id == message_id for waiting in self.waiting)

    def stop_turn(self) -> bool:
        """Cancel the running turn; the next message follows. Returns False if no turn is running."""
        if self._turn is None or self._turn.done() or self._stopping:
            return False
        # A task that is cancelled before its first step never runs, and its message would get no answer at all.
        self._stopping = True
        return not self._has_started or self._turn.cancel()

    async def close(self, seconds: float) -> None:
        """Start no more turns. The running turn gets `seconds` to end, then it is cancelled."""
        self._entries.clear()
        self._changed.set()
        if self._worker is not None:
            await asyncio.wait([self._worker], timeout=seconds)
        if self._worker is not None:
            self.stop_turn()
            await asyncio.wait([self._worker])

    async def _work(self) -> None:
        try:
            while self._entries:
                entry = next((entry for entry in self._entries if entry.is_due()), None)
                if entry is None or entry.message is None:
                    self._changed.clear()
                    await self._changed.wait()
                    continue
                self._entries.remove(entry)
                self._has_started = self._stopping = False
                self._current, self._since = entry.message, time.time()
                self._turn = asyncio.create_task(self._run(entry.message))
                await asyncio.wait([self._turn])
                self._turn = self._current = None
        finally:
            self._worker = None
            self._on_idle(self.conversation_id)

    async def _run(self, message: InboundMessage) -> None:
        self._has_started = True
        if self._stopping and (task := asyncio.current_task()):
            task.cancel()
        await self._handle(self, message)


log = structlog.get_logger(__name__)


LEASE_SECONDS = 30.0


_RETRY_SECONDS = 0.5


class LeaseHolder:
    """This process as a holder of leases."""

    def __init__(self, leases: Leases, *, seconds: float = LEASE_SECONDS) -> None:
        self.id = new_id("proc")
        self._leases = leases
        self._seconds = seconds
        self._held: set[str] = set()
        self._renewing: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def hold(self, conversation_id: str) -> AsyncIterator[Fence]:
        """Wait until no other process holds the lease, and hold it. The fence goes with every write inside."""
        acquire = partial(self._leases.acquire, conversation_id, holder=self.id, seconds=self._seconds)
        while (token := await retry_store(acquire)) is None:  # noqa: ASYNC110 - another process holds it
            await asyncio.sleep(_RETRY_SECONDS)
        self._held.add(conversation_id)
        if self._renewing is None:
            # An empty context: the task outlives the turn that starts it and must not inherit its log fields.
            self._renewing = asyncio.create_task(self._renew(), name="leases", context=Context())
        try:
            yield Fence(conversation_id, token)
        finally:
            self._held.discard(conversation_id)
            with suppress(StoreError):  # the lease expires by itself
                await self._leases.release(conversation_id, holder=self.id)

    async def close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._seconds / 3)
            if self._held:
                try:
                    await self._leases.renew(list(self._held), holder=self.id, seconds=self._seconds)
                except StoreError as error:
                    log.warning("leases.not_renewed", error=str(error))
