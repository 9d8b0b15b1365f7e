"""Shows in a chat what happens in its conversation."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress

import structlog

from agent.events import TurnEvent, TurnStarted
from gateway.chat.adapter import ChatPort
from gateway.chat.delivery.outbox_tracker import OutboxTracker
from gateway.chat.delivery.pacing import ChatTarget, ChatTargets, Timing
from gateway.chat.delivery.send_queue import SendQueue
from gateway.chat.delivery.sender import Sender
from gateway.chat.delivery.text_message import Style, TextMessage
from gateway.chat.delivery.turn_view import TurnView
from gateway.chat.errors import DeliveryError, SlowDown
from gateway.core.events import EventDeduplicator, EventHub
from gateway.core.observer import NULL_OBSERVER, DeliveryObserver
from gateway.store.ports import Outbox, OutboxItem
from gateway.types import Button, Place

log = structlog.get_logger(__name__)


class TypingIndicator:
    """Given again and again for as long as a turn works and nothing else shows it. Nobody waits for it."""

    def __init__(self, scene: TurnView) -> None:
        self._scene = scene
        self._task: asyncio.Task[None] | None = None

    def switch(self, *, on: bool) -> None:
        if on and self._task is None:
            self._task = asyncio.create_task(self._give(), name="typing sign")
        elif not on and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _give(self) -> None:
        await asyncio.sleep(self._scene.venue.timing.typing_after)
        while True:
            venue = self._scene.venue
            pause = venue.timing.typing_every
            if self._scene.wants_typing and venue.pace.held_until <= asyncio.get_running_loop().time():
                try:
                    await venue.port.typing(venue.place)
                except SlowDown as error:
                    pause = max(venue.timing.typing_cooldown, error.retry_after)
                except DeliveryError as error:
                    log.debug("chat.no_typing", platform=venue.port.platform, error=type(error).__name__)
                    pause = venue.timing.typing_cooldown
            await asyncio.sleep(pause)


_KNOWN_MESSAGES = 10_000
"""Of these the service's own ids are remembered; the oldest are forgotten."""


class DeliveryManager:
    """One follower for each conversation in which something has happened lately.

    With an outbox, what has an id there is brought even if this process ends before; all else as well as it goes.
    """

    def __init__(
        self,
        hub: EventHub,
        port: ChatPort,
        outbox: Outbox | None = None,
        *,
        streaming: bool = True,
        timing: Timing | None = None,
        observer: DeliveryObserver = NULL_OBSERVER,
    ) -> None:
        self._observer = observer
        self._hub = hub
        self._port = port
        self._outbox = outbox
        self._streaming = streaming
        self._timing = timing or Timing()
        self._venues = ChatTargets(port, self._timing)
        self._followers: dict[str, ConversationDelivery] = {}
        self._platform_ids: OrderedDict[str, str] = OrderedDict()
        self._closed = False

    async def recover(self) -> None:
        """Takes up what an earlier process did not bring to its end. Called once, before anything is followed; showing
        it goes on by itself."""
        if self._outbox is None:
            return
        platform = self._port.platform
        await self._outbox.discard_unfinished(platform)
        left = await self._outbox.undelivered(platform)
        by_conversation: defaultdict[str, list[OutboxItem]] = defaultdict(list)
        for outgoing in left:
            by_conversation[outgoing.conversation_id].append(outgoing)
        for conversation_id, outgoing_ones in by_conversation.items():
            self.follow(conversation_id, outgoing_ones[-1].place)
            self._followers[conversation_id].restore(outgoing_ones, self._venues)
        if left:
            log.info("chat.recovered", platform=platform, count=len(left))

    def bring(self, outgoing: OutboxItem) -> None:
        """One that was given up on gets another chance. What has no time left here is brought at the next start."""
        if self._closed:
            return
        if outgoing.conversation_id not in self._followers:
            self.follow(outgoing.conversation_id, outgoing.place)
        self._followers[outgoing.conversation_id].restore([outgoing], self._venues)

    def follow(self, conversation_id: str, place: Place) -> None:
        """From now on, until nothing has happened for a while. Called before a message is handed in."""
        if self._closed:
            return
        venue = self._venues.at(place)
        if follower := self._followers.get(conversation_id):
            follower.go_to(venue)
        else:
            self._followers[conversation_id] = self._new_follower(conversation_id, venue)

    def stream(self, on: bool) -> None:
        """Whether answers that begin from now on grow as they are written."""
        self._streaming = on
        for follower in self._followers.values():
            follower.stream(on)

    def answering(self, message_id: str, platform_message_id: str) -> None:
        """The service knows our message by this id: what answers it can be sent as a reply."""
        self._platform_ids[message_id] = platform_message_id
        if len(self._platform_ids) > _KNOWN_MESSAGES:
            self._platform_ids.popitem(last=False)

    async def tell(
        self, place: Place, text: str, *, buttons: Sequence[Button] = (), reply_to: str = ""
    ) -> str | None:
        """Something outside any turn. Gives the message's id, or None if it could not be delivered, also because the
        service wants a longer pause than a caller can be kept waiting."""
        venue = self._venues.at(place)
        passage = TextMessage(venue, Style(), whole=text, reply_to=reply_to, buttons=buttons)
        stage = SendQueue()
        stage.add(passage)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timing.telling):
                await Sender(stage).run()
        return passage.last_id if passage.over and not passage.lost and passage.last_id else None

    async def close(self) -> None:
        """What is being shown is brought to its end, for as long as that takes few seconds."""
        self._closed = True
        await asyncio.sleep(0)  # the followers read what was published just now
        followers = list(self._followers.values())
        tasks = [task for follower in followers if (task := follower.finish())]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._timing.closing)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _new_follower(self, conversation_id: str, venue: ChatTarget) -> ConversationDelivery:
        scene = TurnView(
            conversation_id,
            venue,
            OutboxTracker(self._port.platform, self._outbox, self._observer),
            streaming=self._streaming,
            platform_id=lambda message_id: self._platform_ids.get(message_id, ""),
        )
        leave = self._followers.pop
        return ConversationDelivery(self._hub, conversation_id, scene, on_end=lambda: leave(conversation_id))


class ConversationDelivery:
    """Reads the events of one conversation as they come; showing them takes as long as it takes."""

    def __init__(
        self, hub: EventHub, conversation_id: str, scene: TurnView, *, on_end: Callable[[], object]
    ) -> None:
        self._hub = hub
        self._idle = scene.venue.timing.idle
        self._conversation_id = conversation_id
        self._scene = scene
        self._on_end = on_end
        self._performer = Sender(scene.stage, scene.ledger)
        self._typing = TypingIndicator(scene)
        self._unseen = EventDeduplicator(after=hub.last_number(conversation_id))
        self._watching = ExitStack()
        self._watch()
        self._reader = asyncio.create_task(self._read(), name=f"follower {conversation_id}")
        self._clock = asyncio.get_running_loop()
        self._last_stir = self._clock.time()
        self._rest_check = self._clock.call_later(self._idle, self._rest_if_idle)

    def restore(self, left: Sequence[OutboxItem], venues: ChatTargets) -> None:
        self._scene.restore(left, venues)
        self._performer.nudge()

    def go_to(self, venue: ChatTarget) -> None:
        self._last_stir = self._clock.time()
        if venue is not self._scene.venue:
            self._scene.go_to(venue)

    def stream(self, on: bool) -> None:
        self._scene.stream(on)

    def finish(self) -> asyncio.Task[None] | None:
        """No more events. Gives what is left to be waited for."""
        self._stop_reading()
        self._scene.finish()
        self._scene.ledger.try_again()
        self._performer.nudge()
        return self._performer.task

    def _watch(self) -> None:
        self._envelopes = self._watching.enter_context(
            self._hub.watch(self._conversation_id, after=self._unseen.last)
        )

    async def _read(self) -> None:
        structlog.contextvars.bind_contextvars(conversation=self._conversation_id)
        while True:
            async for envelope in self._envelopes:
                try:
                    if event := self._unseen.take(envelope.number, envelope.event):
                        self._show(event)
                except Exception as error:  # noqa: BLE001 - a bug must not silence the conversation for good
                    await asyncio.to_thread(log.error, "chat.event_not_shown", exc_info=error)
            # The hub cuts off whoever lags far behind. Watching again gives what was missed.
            self._watching.close()
            self._watch()

    def _show(self, event: TurnEvent) -> None:
        self._last_stir = self._clock.time()
        if isinstance(event, TurnStarted):
            structlog.contextvars.bind_contextvars(turn=event.message_id)
        self._scene.apply(event, self._last_stir)
        self._performer.nudge()
        self._typing.switch(on=self._scene.running)

    def _rest_if_idle(self) -> None:
        rest_at = self._last_stir + self._idle
        if self._scene.ledger.try_again():
            self._performer.nudge()
        if self._is_busy:
            rest_at = self._clock.time() + self._idle
        if rest_at > self._clock.time():
            self._rest_check = self._clock.call_at(rest_at, self._rest_if_idle)
        else:
            self._stop_reading()

    @property
    def _is_busy(self) -> bool:
        is_behind = self._hub.last_number(self._conversation_id) > self._unseen.last
        return self._scene.running or is_behind or self._performer.task is not None

    def _stop_reading(self) -> None:
        """At once, so that whoever follows from now on misses nothing and sees nothing twice."""
        self._on_end()
        self._rest_check.cancel()
        self._watching.close()
        self._reader.cancel()
        self._typing.switch(on=False)
