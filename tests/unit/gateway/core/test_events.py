"""Watching a conversation: live, late, and after a lost connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from agent.events import TextDelta, TurnDone, TurnEvent, TurnStarted
from gateway.core.events import Envelope, EventHub

CHAT = "conv_1"


async def _take(watcher: AsyncIterator[Envelope], count: int) -> list[TurnEvent]:
    return [(await asyncio.wait_for(anext(watcher), 5)).event for _ in range(count)]


def _play(hub: EventHub, *events: TurnEvent) -> None:
    for event in events:
        hub.publish(CHAT, event)


async def test_watchers_see_events_in_order() -> None:
    """Two tabs see the same turn."""
    hub = EventHub()
    turn = [TurnStarted("m1", "hi"), TextDelta("a"), TextDelta("b"), TurnDone("ab")]
    with hub.watch(CHAT, after=0) as one, hub.watch(CHAT, after=0) as two:
        _play(hub, *turn)
        assert await _take(one, 4) == turn
        assert await _take(two, 4) == turn


async def test_a_late_watcher_gets_the_running_turn_whole() -> None:
    """A page opened in the middle of an answer shows it from its beginning, nothing twice."""
    hub = EventHub()
    _play(hub, TurnStarted("m1", "hi"), TextDelta("Hel"), TextDelta("lo"))
    with hub.watch(CHAT, after=hub.last_number(CHAT)) as late:
        _play(hub, TextDelta(" you"), TurnDone("Hello you"))
        seen = await _take(late, 4)
    assert seen == [TurnStarted("m1", "hi"), TextDelta("Hello"), TextDelta(" you"), TurnDone("Hello you")]


async def test_a_page_that_has_read_the_store_gets_nothing_old() -> None:
    """After the turn is over its events are in the store; they are not sent again."""
    hub = EventHub()
    _play(hub, TurnStarted("m1", "hi"), TurnDone("yo"))
    with hub.watch(CHAT, after=hub.last_number(CHAT)) as watcher:
        _play(hub, TurnStarted("m2", "again"))
        assert await _take(watcher, 1) == [TurnStarted("m2", "again")]


async def test_a_lost_connection_gets_the_missed_end() -> None:
    """A watcher that missed TurnDone gets that turn again on reconnecting, even if it was not watched meanwhile."""
    hub = EventHub()
    with hub.watch(CHAT, after=0) as watcher:
        _play(hub, TurnStarted("m1", "hi"), TextDelta("yo"))
        await _take(watcher, 1)
        seen = (await anext(watcher)).number
    _play(hub, TurnDone("yo"))
    with hub.watch(CHAT, after=seen) as again:
        assert await _take(again, 3) == [TurnStarted("m1", "hi"), TextDelta("yo"), TurnDone("yo")]


async def test_a_slow_watcher_is_cut_off_and_nobody_else() -> None:
    """Memory stays bounded when a watcher does not read."""
    hub = EventHub()
    with hub.watch(CHAT, after=0) as slow:
        for number in range(10_001):
            hub.publish(CHAT, TextDelta(str(number)))
        hub.publish(CHAT, TurnDone(""))
        assert len([envelope async for envelope in slow]) == 10_000


async def test_idle_conversations_are_forgotten() -> None:
    """The hub does not grow with the number of conversations that once had a turn."""
    hub = EventHub()
    for number in range(1_000):
        hub.publish(f"conv_{number}", TurnStarted("m", "hi"))
        hub.publish(f"conv_{number}", TurnDone("yo"))
    assert len(hub._channels) <= 256


async def test_a_watcher_from_a_time_when_the_clock_was_ahead() -> None:
    """Event numbers start at the clock. A watcher whose number is ahead, because the clock was set back before a
    restart, still gets the running turn.
    """
    hub = EventHub()
    turn = [TurnStarted("m1", "hi"), TextDelta("yo")]
    _play(hub, *turn)
    with hub.watch(CHAT, after=hub.last_number(CHAT) + 10**9) as watcher:
        assert await _take(watcher, 2) == turn
