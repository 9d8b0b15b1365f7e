"""Publishes turn events to the watchers of a conversation, and replays a turn to a watcher that joins late."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

from agent.events import Queued, TextDelta, TurnDone, TurnEvent, TurnFailed, TurnStarted
from gateway.types import InboundMessage

_MAX_LAG = 10_000
"""Unread events after which a watcher is disconnected; it reconnects and gets the turn replayed."""
_MAX_IDLE_CHANNELS = 256
"""Idle conversations whose last turn is kept, for a watcher that lost its connection near the end."""
_CHUNK = 1_000
"""Characters up to which remembered text is merged into one event: a long answer costs few events."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """An event with its number. Numbers grow over all conversations and never repeat."""

    number: int
    event: TurnEvent


@dataclass(slots=True)
class _Channel:
    number: int = 0
    turn: list[Envelope] = field(default_factory=list)
    """The running or last turn, for replay."""
    running: TurnStarted | None = None
    watchers: dict[asyncio.Queue[Envelope | None], bool] = field(default_factory=dict)
    """Each watcher's unread events, and whether a watcher that lags is disconnected."""


class EventHub:
    """One channel per conversation."""

    def __init__(self) -> None:
        self._channels: dict[str, _Channel] = {}
        self._idle: dict[str, None] = {}
        """Channels without a turn and without a watcher, the longest idle first."""
        # Start above every number of an earlier process, so that a watcher can reconnect after a restart.
        self._last_number = time.time_ns() // 1_000_000

    def publish(self, conversation_id: str, event: TurnEvent) -> None:
        channel = self._channel(conversation_id)
        self._last_number += 1
        envelope = Envelope(self._last_number, event)
        if isinstance(event, TurnStarted):
            channel.turn, channel.running = [], event
        elif isinstance(event, TurnDone | TurnFailed):
            channel.running = None
        # A message queued between two turns does not belong to the turn that ended, so it is not replayed with it.
        if channel.running or not isinstance(event, Queued):
            channel.number = envelope.number
            _remember(channel.turn, envelope)
        for watcher, is_limited in list(channel.watchers.items()):
            if is_limited and watcher.qsize() >= _MAX_LAG:
                del channel.watchers[watcher]
                watcher.put_nowait(None)
            else:
                watcher.put_nowait(envelope)
        self._evict_idle(conversation_id, channel)

    def running(self, conversation_id: str) -> TurnStarted | None:
        """Return the start of the running turn, if there is one."""
        channel = self._channels.get(conversation_id)
        return channel.running if channel else None

    def last_number(self, conversation_id: str) -> int:
        """Return the number after which a watcher that has read the store continues. A running turn is unread."""
        channel = self._channels.get(conversation_id)
        if channel is None:
            return self._last_number
        return channel.turn[0].number - 1 if channel.running else channel.number

    @contextmanager
    def watch(
        self, conversation_id: str, *, after: int, is_limited: bool = True
    ) -> Iterator[AsyncIterator[Envelope]]:
        """Yield the events from now on. If any has a number above `after`, the whole last turn comes first: a watcher
        that sees a known TurnStarted shows that turn again from the start.

        A watcher that lags is disconnected unless `is_limited` is False."""
        channel = self._channel(conversation_id)
        queue: asyncio.Queue[Envelope | None] = asyncio.Queue()
        # A number above the last one comes from an earlier process whose clock was ahead.
        if after < channel.number or after > self._last_number:
            for envelope in channel.turn:
                queue.put_nowait(envelope)
        channel.watchers[queue] = is_limited
        try:
            yield _read(queue)
        finally:
            channel.watchers.pop(queue, None)
            self._evict_idle(conversation_id, channel)

    def _channel(self, conversation_id: str) -> _Channel:
        self._idle.pop(conversation_id, None)
        return self._channels.setdefault(conversation_id, _Channel())

    def _evict_idle(self, conversation_id: str, channel: _Channel) -> None:
        if channel.watchers or channel.running or self._channels.get(conversation_id) is not channel:
            return
        self._idle[conversation_id] = None
        if len(self._idle) > _MAX_IDLE_CHANNELS:
            oldest = next(iter(self._idle))
            del self._idle[oldest], self._channels[oldest]


def _remember(turn: list[Envelope], envelope: Envelope) -> None:
    last = turn[-1].event if turn else None
    if isinstance(envelope.event, TextDelta) and isinstance(last, TextDelta) and len(last.text) < _CHUNK:
        turn[-1] = Envelope(envelope.number, TextDelta(last.text + envelope.event.text))
    else:
        turn.append(envelope)


async def _read(queue: asyncio.Queue[Envelope | None]) -> AsyncIterator[Envelope]:
    while (envelope := await queue.get()) is not None:
        yield envelope


class Observer:
    """Observes turns and deliveries, for metrics and traces. This base class records nothing."""

    def queued(self, message_id: str) -> None:
        """Note that the message waits for its turn from now on."""

    def turn(self, conversation_id: str, inbound: InboundMessage) -> AbstractContextManager[object]:
        """Return a context manager for all work on this message."""
        return nullcontext()

    def event(self, inbound: InboundMessage, event: TurnEvent) -> None:
        """Note an event of the turn that answers this message, or that the message is queued."""

    def call(self, platform: str, name: str, turn_id: str) -> AbstractContextManager[object]:
        """Return a context manager for one call to a chat service. Exceptions pass through."""
        return nullcontext()

    def delivered(self, platform: str, outcome: str) -> None:
        """Count an outbox item that is finally `sent` or `parked`."""


NULL_OBSERVER = Observer()
