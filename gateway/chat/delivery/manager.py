"""Delivers the events of each conversation to its chat."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress

import structlog

from agent.events import TurnStarted
from gateway.chat.adapter import ChatPort
from gateway.chat.delivery.item import OutboxTracker
from gateway.chat.delivery.pacing import ChatTarget, ChatTargets, Timing
from gateway.chat.delivery.send_queue import SendQueue
from gateway.chat.delivery.text_message import Style, TextMessage
from gateway.chat.delivery.turn_view import TurnView
from gateway.chat.errors import DeliveryError, SlowDown
from gateway.chat.keyed_queue import finish_or_cancel
from gateway.core.events import NULL_OBSERVER, EventHub, Observer
from gateway.core.retry import Crash, guarded
from gateway.store.ports import Outbox, OutboxItem
from gateway.types import Button, Place

log = structlog.get_logger(__name__)

_MAX_PLATFORM_IDS = 10_000
"""Messages whose platform ids are kept; the oldest are dropped."""


class DeliveryManager:
    """Runs one `ConversationDelivery` for each conversation that had an event lately.

    Items in the outbox are delivered even if this process ends before; everything else is best effort.
    """

    def __init__(
        self,
        hub: EventHub,
        port: ChatPort,
        outbox: Outbox | None = None,
        *,
        streaming: bool = True,
        timing: Timing | None = None,
        observer: Observer = NULL_OBSERVER,
    ) -> None:
        self._observer = observer
        self._hub = hub
        self._port = port
        self._outbox = outbox
        self._streaming = streaming
        self._timing = timing or Timing()
        self._targets = ChatTargets(port, self._timing)
        self._deliveries: dict[str, ConversationDelivery] = {}
        self._platform_ids: OrderedDict[str, str] = OrderedDict()
        self._closed = False

    async def recover(self) -> None:
        """Resume the deliveries that an earlier process left in the outbox. Call this once, before `follow`."""
        if self._outbox is None:
            return
        platform = self._port.platform
        await self._outbox.discard_unfinished(platform)
        items = await self._outbox.undelivered(platform)
        by_conversation: defaultdict[str, list[OutboxItem]] = defaultdict(list)
        for item in items:
            by_conversation[item.conversation_id].append(item)
        for conversation_id, left in by_conversation.items():
            self.follow(conversation_id, left[-1].place)
            self._deliveries[conversation_id].restore(left, self._targets)
        if items:
            log.info("chat.recovered", platform=platform, count=len(items))

    def deliver(self, item: OutboxItem) -> None:
        """Deliver an item that was parked. After `close`, the next process does it."""
        if self._closed:
            return
        if item.conversation_id not in self._deliveries:
            self.follow(item.conversation_id, item.place)
        self._deliveries[item.conversation_id].restore([item], self._targets)

    def follow(self, conversation_id: str, place: Place) -> None:
        """Deliver the events of this conversation from now on, until it is idle. Call this before a message of it is
        submitted."""
        if self._closed:
            return
        target = self._targets.get(place)
        if delivery := self._deliveries.get(conversation_id):
            delivery.move(target)
        else:
            self._deliveries[conversation_id] = self._start_delivery(conversation_id, target)

    def set_streaming(self, on: bool) -> None:
        """Choose whether later answers are shown while they grow."""
        self._streaming = on
        for delivery in self._deliveries.values():
            delivery.view.set_streaming(on)

    def map_reply(self, message_id: str, platform_message_id: str) -> None:
        """Remember the service's id for a message, so that answers can be sent as replies to it."""
        self._platform_ids[message_id] = platform_message_id
        if len(self._platform_ids) > _MAX_PLATFORM_IDS:
            self._platform_ids.popitem(last=False)

    async def send_notice(
        self, place: Place, text: str, *, buttons: Sequence[Button] = (), reply_to: str = ""
    ) -> str | None:
        """Send a text outside a turn. Return its message id, or None if it cannot be delivered within the notice
        timeout."""
        target = self._targets.get(place)
        message = TextMessage(target, Style(), text=text, reply_to=reply_to, buttons=buttons)
        queue = SendQueue()
        queue.add(message)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timing.notice_timeout):
                await queue.run()
        return message.last_id if message.finished and not message.failed and message.last_id else None

    async def close(self) -> None:
        """Finish all visible messages, within a few seconds."""
        self._closed = True
        await asyncio.sleep(0)  # let the deliveries read the events that were published last
        deliveries = list(self._deliveries.values())
        tasks = [task for delivery in deliveries if (task := delivery.finish())]
        await finish_or_cancel(tasks, self._timing.close_timeout)

    def _start_delivery(self, conversation_id: str, target: ChatTarget) -> ConversationDelivery:
        view = TurnView(
            conversation_id,
            target,
            OutboxTracker(self._port.platform, self._outbox, self._observer),
            streaming=self._streaming,
            platform_id=lambda message_id: self._platform_ids.get(message_id, ""),
        )
        remove = self._deliveries.pop
        return ConversationDelivery(self._hub, conversation_id, view, on_end=lambda: remove(conversation_id))


class ConversationDelivery:
    """Reads the events of one conversation without waiting for the service; its sender delivers them."""

    def __init__(
        self, hub: EventHub, conversation_id: str, view: TurnView, *, on_end: Callable[[], object]
    ) -> None:
        self._hub = hub
        self._idle_timeout = view.target.timing.idle_timeout
        self._conversation_id = conversation_id
        self.view = view
        self._on_end = on_end
        self._typing = TypingIndicator(view)
        self._last_number = hub.last_number(conversation_id)
        self._subscription = ExitStack()
        # Applying an event takes no time, so the reader does not lag and needs no limit.
        self._envelopes = self._subscription.enter_context(
            hub.watch(conversation_id, after=self._last_number, is_limited=False)
        )
        self._reader = asyncio.create_task(self._read(), name=f"event reader {conversation_id}")
        self._loop = asyncio.get_running_loop()
        self._last_activity = self._loop.time()
        self._idle_check = self._loop.call_later(self._idle_timeout, self._stop_if_idle)

    def restore(self, items: Sequence[OutboxItem], targets: ChatTargets) -> None:
        self.view.restore(items, targets)
        self.view.queue.wake()

    def move(self, target: ChatTarget) -> None:
        self._last_activity = self._loop.time()
        if target is not self.view.target:
            self.view.move(target)

    def finish(self) -> asyncio.Task[None] | None:
        """Stop reading events and finish all messages. Return the sender's task if it must be awaited."""
        self._stop_reading()
        self.view.finish()
        self.view.tracker.retry_unsaved()
        self.view.queue.wake()
        return self.view.queue.task

    async def _read(self) -> None:
        structlog.contextvars.bind_contextvars(conversation=self._conversation_id)
        # The adapter's `measure` may raise anything, and the rest of the reply must be shown.
        while isinstance(await guarded(self._apply_events, "chat.event_not_shown", passes=()), Crash):
            pass

    async def _apply_events(self) -> None:
        async for envelope in self._envelopes:
            self._last_number = envelope.number
            self._last_activity = self._loop.time()
            if isinstance(envelope.event, TurnStarted):
                structlog.contextvars.bind_contextvars(turn=envelope.event.message_id)
            self.view.apply(envelope.event, self._last_activity)
            self.view.queue.wake()
            self._typing.switch(on=self.view.running)

    def _stop_if_idle(self) -> None:
        stop_at = self._last_activity + self._idle_timeout
        if self.view.tracker.retry_unsaved():
            self.view.queue.wake()
        is_behind = self._hub.last_number(self._conversation_id) > self._last_number
        if self.view.running or is_behind or self.view.queue.task is not None:
            stop_at = self._loop.time() + self._idle_timeout
        if stop_at > self._loop.time():
            self._idle_check = self._loop.call_at(stop_at, self._stop_if_idle)
        else:
            self._stop_reading()

    def _stop_reading(self) -> None:
        """Stop at once, so that a delivery that starts now misses no event and sees none twice."""
        self._on_end()
        self._idle_check.cancel()
        self._subscription.close()
        self._reader.cancel()
        self._typing.switch(on=False)


class TypingIndicator:
    """Repeats the typing indicator while a turn runs and nothing visible shows it."""

    def __init__(self, view: TurnView) -> None:
        self._view = view
        self._task: asyncio.Task[None] | None = None

    def switch(self, *, on: bool) -> None:
        if on and self._task is None:
            self._task = asyncio.create_task(self._run(), name="typing indicator")
        elif not on and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        await asyncio.sleep(self._view.target.timing.typing_after)
        while True:
            target = self._view.target
            pause = target.timing.typing_every
            if self._view.wants_typing and target.pacer.blocked_until <= asyncio.get_running_loop().time():
                try:
                    await target.port.typing(target.place)
                except SlowDown as error:
                    pause = max(target.timing.typing_cooldown, error.retry_after)
                except DeliveryError as error:
                    log.debug("chat.typing_failed", platform=target.port.platform, error=type(error).__name__)
                    pause = target.timing.typing_cooldown
            await asyncio.sleep(pause)
