"""What a watcher of a conversation gets: every event once, also when the connection breaks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.events import Notice, TextDelta, ToolFinished, ToolStarted, TurnDone, TurnEvent, TurnStarted
from gateway.cli.chat_backend import EventDeduplicator
from gateway.core.events import EventHub

TURN: list[TurnEvent] = [
    TurnStarted("msg_1", "Hi"),
    TextDelta("Let me "),
    TextDelta("look."),
    ToolStarted("call_1", "todo", "{}"),
    ToolFinished("call_1", "todo", True, "done", 0.1),
    TextDelta("It is "),
    Notice("Trying again."),
    TextDelta("do"),
    TextDelta("ne."),
    TurnDone("It is done."),
]


def joined(events: list[TurnEvent]) -> list[TurnEvent]:
    """Neighbouring pieces of text as one: how it is cut does not matter."""
    result: list[TurnEvent] = []
    for event in events:
        last = result[-1] if result else None
        if isinstance(event, TextDelta) and isinstance(last, TextDelta):
            result[-1] = TextDelta(last.text + event.text)
        else:
            result.append(event)
    return result


async def watched(hub: EventHub, unseen: EventDeduplicator, count: int) -> list[TurnEvent]:
    """What gets through of the first `count` envelopes of a new connection."""
    seen: list[TurnEvent] = []
    with hub.watch("conv", after=unseen.last) as envelopes:
        for _ in range(count):
            envelope = await anext(envelopes)
            if event := unseen.take(envelope.number, envelope.event):
                seen.append(event)
    return seen


@given(st.sets(st.integers(1, len(TURN) - 1)))
async def test_broken_connections_lose_and_repeat_nothing(breaks: set[int]) -> None:
    """The hub replays the turn with its text joined into other pieces; the watcher sees each letter once."""
    hub = EventHub()
    unseen = EventDeduplicator(after=hub.last_number("conv"))
    seen: list[TurnEvent] = []
    for number, event in enumerate(TURN, start=1):
        hub.publish("conv", event)
        if number in breaks | {len(TURN)}:
            everything_again = len(joined(TURN[:number]))
            seen += await watched(hub, unseen, everything_again)
    assert joined(seen) == joined(TURN)


async def test_what_was_told_before_the_first_turn_is_not_repeated() -> None:
    """The answers to `/status` and `/stop` belong to no turn; asking for the second must not bring the first."""
    hub = EventHub()
    unseen = EventDeduplicator(after=hub.last_number("conv"))
    hub.publish("conv", Notice("one"))
    assert await watched(hub, unseen, 1) == [Notice("one")]
    hub.publish("conv", Notice("two"))
    assert await watched(hub, unseen, 2) == [Notice("two")]


def test_a_gateway_that_begins_to_count_anew_is_heard() -> None:
    """After a restart the numbers are small again; a new turn must not be taken for an old one."""
    unseen = EventDeduplicator(after=500)
    assert unseen.take(3, TurnStarted("msg_9", "Hi")) == TurnStarted("msg_9", "Hi")
    assert unseen.take(4, TextDelta("Yes")) == TextDelta("Yes")
    assert unseen.take(5, TurnDone("Yes")) == TurnDone("Yes")
    assert unseen.last == 5
