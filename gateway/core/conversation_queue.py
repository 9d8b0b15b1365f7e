"""One turn at a time per conversation, in order."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile

from gateway.types import InboundMessage

Handler = Callable[["ConversationQueue", InboundMessage], Awaitable[None]]


class ConversationQueue:
    """Messages of one conversation waiting for their turn, and the task that works through them.

    All of them are in the inbox as well: what is forgotten here is taken up at the next start.
    """

    def __init__(self, conversation_id: str, handle: Handler, on_idle: Callable[[str], None]) -> None:
        self.conversation_id = conversation_id
        self._handle = handle
        self._on_idle = on_idle
        self._waiting: deque[InboundMessage] = deque()
        self._turn: asyncio.Task[None] | None = None
        self._at_work: InboundMessage | None = None
        self._since = 0.0
        self._began = self._stopping = False
        self._worker: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> Sequence[InboundMessage]:
        return self._waiting

    @property
    def at_work(self) -> tuple[InboundMessage, float] | None:
        """What is being answered, and since when."""
        return (self._at_work, self._since) if self._at_work is not None else None

    def put(self, message: InboundMessage) -> int:
        """Gives the number of messages that wait before it."""
        ahead = len(self._waiting)
        self._waiting.append(message)
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name=f"mailbox {self.conversation_id}")
        return ahead

    def replace(self, message: InboundMessage) -> bool:
        """Puts another form of a message in its place, if it still waits."""
        for at, waiting in enumerate(self._waiting):
            if waiting.id == message.id:
                self._waiting[at] = message
                return True
        return False

    def first_while(self, wanted: Callable[[InboundMessage], bool]) -> Sequence[InboundMessage]:
        """Those at the front; they go on waiting until they are removed."""
        return list(takewhile(wanted, self._waiting))

    def remove(self, messages: Sequence[InboundMessage]) -> None:
        """They were given to the turn that is running."""
        ids = {message.id for message in messages}
        self._waiting = deque(waiting for waiting in self._waiting if waiting.id not in ids)

    def holds(self, message_id: str) -> bool:
        """Whether it waits here, or is being answered."""
        at_work = self._at_work is not None and self._at_work.id == message_id
        return at_work or any(waiting.id == message_id for waiting in self._waiting)

    def stop_turn(self) -> bool:
        """Ends the running turn; what waits behind it comes next."""
        if self._turn is None or self._turn.done() or self._stopping:
            return False
        # A task that is cancelled before its first step never runs at all, and nobody would hear of its message.
        self._stopping = True
        return not self._began or self._turn.cancel()

    async def close(self, seconds: float) -> None:
        """No new turns. The running one gets so many seconds to come to its end."""
        self._waiting.clear()
        if self._worker is not None:
            await asyncio.wait([self._worker], timeout=seconds)
        if self._worker is not None:
            self.stop_turn()
            await asyncio.wait([self._worker])

    async def _work(self) -> None:
        try:
            while self._waiting:
                self._began = self._stopping = False
                self._at_work, self._since = self._waiting.popleft(), time.time()
                self._turn = asyncio.create_task(self._run(self._at_work))
                await asyncio.wait([self._turn])
                self._turn = self._at_work = None
        finally:
            self._worker = None
            self._on_idle(self.conversation_id)

    async def _run(self, message: InboundMessage) -> None:
        self._began = True
        if self._stopping and (task := asyncio.current_task()):
            task.cancel()
        await self._handle(self, message)
