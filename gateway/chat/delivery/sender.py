"""Makes visible what is on stage: one call at a time, with patience."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, suppress
from math import inf

import structlog

from gateway.chat.delivery.item import NEVER, Call, DeliveryItem, Edit
from gateway.chat.delivery.outbox_tracker import OutboxTracker
from gateway.chat.delivery.send_queue import SendQueue
from gateway.chat.errors import (
    ChatMoved,
    ContentRefused,
    DeliveryError,
    MessageGone,
    SlowDown,
    Undeliverable,
    Unreachable,
)
from gateway.open_files import OUT_OF_RESOURCES

log = structlog.get_logger(__name__)

_BROKE_DOWN = "Showing it broke down; the log says more."


class Sender:
    """Works only while something is due or to be written down; a nudge makes it look again."""

    def __init__(self, stage: SendQueue, ledger: OutboxTracker | None = None) -> None:
        self._stage = stage
        self._ledger = ledger or OutboxTracker()
        self._wake = asyncio.Event()
        self._asleep_until = -inf
        self._task: asyncio.Task[None] | None = None
        self._block: DeliveryItem | None = None
        """What the latest call was for."""

    @property
    def task(self) -> asyncio.Task[None] | None:
        """What is under way."""
        return self._task if self._task and not self._task.done() else None

    def nudge(self) -> None:
        """After every change of what should be visible. Costs next to nothing when it changes no appointment."""
        due = self._stage.due()
        if self.task is None:
            if due < NEVER or self._ledger.has_news:
                self._task = asyncio.create_task(self.run(), name="showing")
                self._task.add_done_callback(self._ended)
        elif due < self._asleep_until or self._ledger.has_news:
            self._wake.set()

    async def run(self) -> None:
        """Until nothing is due."""
        with _logged(self._stage.conversation_id, self._stage.turn_id):
            await self._run()

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        while (due := self._stage.due()) < NEVER or self._ledger.has_news:
            if self._ledger.has_news:
                await self._ledger.write()
            elif due > clock():
                await self._sleep(due)
            elif block := self._stage.next(clock()):
                with _logged(self._stage.conversation_id, block.turn_id or self._stage.turn_id):
                    await self._perform(block)

    async def _sleep(self, until: float) -> None:
        self._wake.clear()
        self._asleep_until = until
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._wake.wait()
        self._asleep_until = -inf

    async def _perform(self, block: DeliveryItem) -> None:
        self._block = block
        venue = block.venue
        clock = asyncio.get_running_loop().time
        call = block.call(clock())
        await self._ledger.write()
        name, turn_id = type(call).__name__, block.turn_id or self._stage.turn_id
        try:
            with self._ledger.observer.call(venue.port.platform, name, turn_id):
                message_id = await call.make(venue.port, venue.place)
        except SlowDown as error:
            log.info("chat.slow_down", platform=venue.port.platform, seconds=error.retry_after)
            venue.pace.slow_down(error.retry_after, clock())
            block.put_off()
        except ChatMoved as error:
            if venue.move(error.new_chat_id):
                block.put_off()
            else:
                self._failed(block, call, Undeliverable())
        except DeliveryError as error:
            self._failed(block, call, error)
        except OSError as error:
            # An adapter that ran out of descriptors, say: no reason to give up a finished answer.
            was_sent = error.errno not in OUT_OF_RESOURCES
            self._failed(block, call, Unreachable(f"({error})", maybe_done=was_sent))
        else:
            venue.pace.went_well()
            self._stage.done(block, call, message_id, clock())

    def _failed(self, block: DeliveryItem, call: Call, error: DeliveryError) -> None:
        now = asyncio.get_running_loop().time()
        if _is_temporary(call, error):
            block.venue.pace.unreachable(now)
        self._stage.failed(block, call, error, now)
        platform, name = block.venue.port.platform, type(error).__name__
        log.info("chat.call_failed", platform=platform, call=type(call).__name__, error=name)
        if block.lost:
            outcome = "chat.undeliverable" if isinstance(error, Undeliverable) else "chat.gave_up"
            log.warning(outcome, platform=platform, chat=block.venue.place.chat_id)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            # A fault of ours or of an adapter. What led to it must not lead to it again with the next event.
            assert self._block
            self._stage.abandon(self._block, _BROKE_DOWN)
            self.nudge()
            report = {"message": "Showing a turn broke down", "exception": error, "task": task}
            asyncio.get_running_loop().call_exception_handler(report)


def _logged(conversation_id: str, turn_id: str) -> AbstractContextManager[None]:
    """Every line about what is shown names the turn, however it came to be shown."""
    ids = {"conversation": conversation_id, "turn": turn_id}
    return structlog.contextvars.bound_contextvars(**{name: id_ for name, id_ in ids.items() if id_})


def _is_temporary(call: Call, error: DeliveryError) -> bool:
    """Also what makes no sense for this call."""
    is_gone = isinstance(error, MessageGone) and isinstance(call, Edit)
    return not is_gone and not isinstance(error, ContentRefused | Undeliverable)
