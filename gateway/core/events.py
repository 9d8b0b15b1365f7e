"""Who is watching a conversation: publishes turn events and replays a turn to those who join late."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agent.events import Queued, TextDelta, TurnDone, TurnEvent, TurnFailed, TurnStarted

_SLOW_WATCHER = 10_000
"""Events a watcher may lag behind before it is cut off; it reconnects and gets the turn replayed."""

_IDLE_CHANNELS = 256
"""Conversations whose last turn is kept for a watcher that lost its connection near the end."""

_PIECE = 1_000
"""Remembered text is joined up to this length: a long answer costs few entries and no quadratic copying."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """An event with its number; numbers grow over all conversations and never repeat."""

    number: int
    event: TurnEvent


@dataclass(slots=True)
class _Channel:
    number: int = 0
    turn: list[Envelope] = field(default_factory=list)
    """The running or last turn, for replay."""
    running: TurnStarted | None = None
    watchers: set[asyncio.Queue[Envelope | None]] = field(default_factory=set)


class EventHub:
    """One channel per conversation."""

    def __init__(self) -> None:
        self._channels: dict[str, _Channel] = {}
        self._idle: dict[str, None] = {}
        """Channels with no turn and no watcher, the longest idle first."""
        # Begins above every number of an earlier process, so that a watcher can come back after a restart.
        self._last_number = time.time_ns() // 1_000_000

    def publish(self, conversation_id: str, event: TurnEvent) -> None:
        channel = self._channel(conversation_id)
        self._last_number += 1
        envelope = Envelope(self._last_number, event)
        if isinstance(event, TurnStarted):
            channel.turn, channel.running = [], event
        elif isinstance(event, TurnDone | TurnFailed):
            channel.running = None
        # What waits between two turns is no part of the one that is over, which nobody must see again for it.
        if channel.running or not isinstance(event, Queued):
            channel.number = envelope.number
            _remember(channel.turn, envelope)
        for watcher in list(channel.watchers):
            if watcher.qsize() >= _SLOW_WATCHER:
                channel.watchers.discard(watcher)
                watcher.put_nowait(None)
            else:
                watcher.put_nowait(envelope)
        self._let_rest(conversation_id, channel)

    def running(self, conversation_id: str) -> TurnStarted | None:
        """The turn in progress, if there is one."""
        channel = self._channels.get(conversation_id)
        return channel.running if channel else None

    def last_number(self, conversation_id: str) -> int:
        """Where a watcher that has read the store begins. A running turn counts as not yet read."""
        channel = self._channels.get(conversation_id)
        if channel is None:
            return self._last_number
        return channel.turn[0].number - 1 if channel.running else channel.number

    @contextmanager
    def watch(self, conversation_id: str, *, after: int) -> Iterator[AsyncIterator[Envelope]]:
        """Events from now on. If any came after number `after`, first the whole last turn again, from its
        TurnStarted: a watcher that sees a TurnStarted it knows begins that turn anew."""
        channel = self._channel(conversation_id)
        queue: asyncio.Queue[Envelope | None] = asyncio.Queue()
        # A number that was never given is from an earlier process whose clock was ahead: it says nothing.
        if after < channel.number or after > self._last_number:
            for envelope in channel.turn:
                queue.put_nowait(envelope)
        channel.watchers.add(queue)
        try:
            yield _drain(queue)
        finally:
            channel.watchers.discard(queue)
            self._let_rest(conversation_id, channel)

    def _channel(self, conversation_id: str) -> _Channel:
        self._idle.pop(conversation_id, None)
        return self._channels.setdefault(conversation_id, _Channel())

    def _let_rest(self, conversation_id: str, channel: _Channel) -> None:
        if channel.watchers or channel.running or self._channels.get(conversation_id) is not channel:
            return
        self._idle[conversation_id] = None
        if len(self._idle) > _IDLE_CHANNELS:
            oldest = next(iter(self._idle))
            del self._idle[oldest], self._channels[oldest]


def _remember(turn: list[Envelope], envelope: Envelope) -> None:
    last = turn[-1].event if turn else None
    if isinstance(envelope.event, TextDelta) and isinstance(last, TextDelta) and len(last.text) < _PIECE:
        turn[-1] = Envelope(envelope.number, TextDelta(last.text + envelope.event.text))
    else:
        turn.append(envelope)


async def _drain(queue: asyncio.Queue[Envelope | None]) -> AsyncIterator[Envelope]:
    while (envelope := await queue.get()) is not None:
        yield envelope


class EventDeduplicator:
    """Lets every event through once.

    Whoever watches again gets the whole turn again, its text cut into other pieces. What was printed or sent
    cannot be taken back, so what was seen is left out here.
    """

    def __init__(self, after: int) -> None:
        self.last = after
        self._message_id = ""
        self._text_seen = 0
        self._text_to_skip = 0
        # Before the first turn, too, what was seen may come again.
        self._repeating = True

    def take(self, number: int, event: TurnEvent) -> TurnEvent | None:
        if isinstance(event, TurnStarted):
            self._begin(event.message_id, number)
        known = self._repeating and number <= self.last
        # Not the greater of the two: after a restart of the gateway, numbers begin anew.
        self.last = self.last if known else number
        if isinstance(event, TextDelta):
            return self._unseen_text(event.text)
        return None if known else event

    def _begin(self, message_id: str, number: int) -> None:
        """A turn that was begun anew, after a crash say, has a new number: its text is another."""
        self._repeating = message_id == self._message_id and number <= self.last
        if not self._repeating:
            self._message_id, self._text_seen = message_id, 0
        self._text_to_skip = self._text_seen

    def _unseen_text(self, text: str) -> TextDelta | None:
        unseen = text[self._text_to_skip :]
        self._text_to_skip -= len(text) - len(unseen)
        self._text_seen += len(unseen)
        return TextDelta(unseen) if unseen else None
