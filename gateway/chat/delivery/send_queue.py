"""Sends the items of one conversation in order, one call at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from math import inf

import structlog

from gateway.chat.delivery.item import NEVER, Call, DeliveryItem, Edit, OutboxTracker, Send, SendFile
from gateway.chat.delivery.status_message import TransientMessage
from gateway.chat.delivery.text_message import Style, TextMessage
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

_CRASHED = "Delivery crashed; the log says more."


class SendQueue:
    """The items of a conversation in order, and the task that sends them; an unfinished item blocks those after it.

    If one item of a turn cannot be delivered, the other items of that turn are not tried. The task runs only while
    something is due or unsaved; `wake` starts it.
    """

    def __init__(
        self,
        tracker: OutboxTracker | None = None,
        transient: Sequence[TransientMessage] = (),
        conversation_id: str = "",
    ) -> None:
        self.turn_id = ""
        """The turn that started last, for the log."""
        self.newest_id = ""
        """The newest message that Hermes sent."""
        self.abandoned_because = ""
        """Why the current turn is not delivered, if it is not."""
        self._tracker = tracker or OutboxTracker()
        self._conversation_id = conversation_id
        self._turn_no = 0
        self._items: list[DeliveryItem] = []
        self._transient = transient
        self._woken = asyncio.Event()
        self._asleep_until = -inf
        self._task: asyncio.Task[None] | None = None
        self._sent: DeliveryItem | None = None
        """The item of the latest call."""

    @property
    def task(self) -> asyncio.Task[None] | None:
        """The running task, or None."""
        return self._task if self._task and not self._task.done() else None

    def start_turn(self) -> None:
        self._turn_no += 1
        self.abandoned_because = ""

    def add(self, item: DeliveryItem) -> None:
        item.turn_no, item.turn_id = self._turn_no, self.turn_id
        self._items.append(item)

    def wake(self) -> None:
        """Check the items again after a change. Costs almost nothing if nothing is due earlier than before."""
        due = self._next_due()
        if self.task is None:
            if due < NEVER or self._tracker.has_changes:
                self._task = asyncio.create_task(self.run(), name="sender")
                self._task.add_done_callback(self._on_task_done)
        elif due < self._asleep_until or self._tracker.has_changes:
            self._woken.set()

    async def run(self) -> None:
        """Send until nothing is due."""
        clock = asyncio.get_running_loop().time
        with self._log_context(self.turn_id):
            while (due := self._next_due()) < NEVER or self._tracker.has_changes:
                if self._tracker.has_changes:
                    await self._tracker.save()
                elif due > clock():
                    await self._sleep(due)
                else:
                    now = clock()
                    item = next(item for item in self._unblocked() if _due(item) <= now)
                    with self._log_context(item.turn_id or self.turn_id):
                        await self._send(item)

    def _next_due(self) -> float:
        return min(map(_due, self._unblocked()), default=NEVER)

    def _unblocked(self) -> Iterator[DeliveryItem]:
        for item in self._items:
            yield item
            if item.blocks_later:
                return
        yield from self._transient

    async def _sleep(self, until: float) -> None:
        self._woken.clear()
        self._asleep_until = until
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._woken.wait()
        self._asleep_until = -inf

    async def _send(self, item: DeliveryItem) -> None:
        self._sent = item
        target = item.target
        clock = asyncio.get_running_loop().time
        call = item.next_call(clock())
        await self._tracker.save()
        name, turn_id = type(call).__name__, item.turn_id or self.turn_id
        try:
            with self._tracker.observer.call(target.port.platform, name, turn_id):
                message_id = await call.execute(target.port, target.place)
        except SlowDown as error:
            log.info("chat.rate_limited", platform=target.port.platform, seconds=error.retry_after)
            target.pacer.slow_down(error.retry_after, clock())
            item.reschedule()
        except ChatMoved as error:
            if target.move(error.new_chat_id):
                item.reschedule()
            else:
                self._on_error(item, call, Undeliverable())
        except DeliveryError as error:
            self._on_error(item, call, error)
        except OSError as error:
            # The process may have run out of file descriptors: a finished answer must survive that.
            was_sent = error.errno not in OUT_OF_RESOURCES
            self._on_error(item, call, Unreachable(f"({error})", maybe_done=was_sent))
        else:
            target.pacer.record_success()
            if isinstance(call, Send | SendFile):
                self.newest_id = message_id
            item.on_success(call, message_id, clock())
        self._items = [item for item in self._items if not item.finished]

    def _on_error(self, item: DeliveryItem, call: Call, error: DeliveryError) -> None:
        now = asyncio.get_running_loop().time()
        is_gone = isinstance(error, MessageGone) and isinstance(call, Edit)
        if not is_gone and not isinstance(error, ContentRefused | Undeliverable):
            # A pause may help, also after an unexpected error.
            item.target.pacer.record_failure(now)
        notice = item.on_error(call, error, now)
        platform, name = item.target.port.platform, type(error).__name__
        log.info("chat.call_failed", platform=platform, call=type(call).__name__, error=name)
        if item.failed:
            self._abandon_turn(item, str(error))
            event = "chat.undeliverable" if isinstance(error, Undeliverable) else "chat.abandoned"
            log.warning(event, platform=platform, chat=item.target.place.chat_id)
        elif notice:
            fallback = TextMessage(item.target, Style(is_fallback=True), text=notice)
            fallback.turn_no, fallback.turn_id = item.turn_no, item.turn_id
            self._items.insert(self._items.index(item), fallback)

    def _abandon_turn(self, failed: DeliveryItem, reason: str) -> None:
        """Abandon all items of the turn to which the failed item belongs."""
        turn_no = self._turn_no if failed in self._transient else failed.turn_no
        for item in self._items:
            if item.turn_no == turn_no:
                item.abandon(reason)
        self._items = [item for item in self._items if item.turn_no != turn_no]
        if turn_no == self._turn_no:
            self.abandoned_because = reason
            for message in self._transient:
                message.reset()

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            # A bug in Hermes or an adapter: abandon the item that led to it, so that the next event does not repeat it.
            assert self._sent
            self._abandon_turn(self._sent, _CRASHED)
            self.wake()
            report = {"message": "Delivery of a turn crashed", "exception": error, "task": task}
            asyncio.get_running_loop().call_exception_handler(report)

    def _log_context(self, turn_id: str) -> AbstractContextManager[None]:
        """Add the ids that are known to every log line."""
        ids = {"conversation": self._conversation_id, "turn": turn_id}
        return structlog.contextvars.bound_contextvars(**{name: id_ for name, id_ in ids.items() if id_})


def _due(item: DeliveryItem) -> float:
    due = item.due()
    return due if due == NEVER else max(due, item.target.pacer.blocked_until)
