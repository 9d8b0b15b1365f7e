"""Any text in any chunks, with any faults: people read the text in the end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.events import TextDelta, ToolFinished, ToolStarted, TurnDone, TurnStarted
from gateway.chat.delivery.item import POSSIBLY_TWICE
from gateway.chat.errors import ChatMoved, ContentRefused, DeliveryError, MessageGone, SlowDown, Unreachable
from gateway.text.unicode import Measure, utf16_length
from tests.support.chat_harness import FAST, ChatHarness, chat_room, reads_as
from tests.support.chat_service import ChatService, RecordedCall, Verb
from tests.support.markdown_texts import texts

AT_ONCE = replace(
    FAST,
    first_text=0.0,
    message_gap=0.0,
    status_after=0.0,
    typing_after=60.0,
    first_backoff=0.0,
    max_backoff=0.0,
    min_pause=0.0,
)


@dataclass(frozen=True, slots=True)
class _Fault:
    verb: Verb
    error: DeliveryError
    executed: bool
    skip: int
    only_unfinished: bool = False
    """A finished text that the service refuses can never be read."""


def _hits(fault: _Fault, call: RecordedCall) -> bool:
    return not (fault.only_unfinished and call.formatted)


_passing: st.SearchStrategy[tuple[DeliveryError, bool]] = st.sampled_from(
    [
        (SlowDown(0.0), False),
        (SlowDown(0.002), False),
        (Unreachable(maybe_done=False), False),
        (Unreachable(maybe_done=True), False),
        (Unreachable(maybe_done=True), True),
        (MessageGone(), False),
        (ChatMoved("elsewhere"), False),
    ]
)
_skips = st.one_of(st.integers(0, 3), st.integers(0, 12))
_of_sends = _passing.flatmap(lambda fault: st.builds(_Fault, st.just("send"), *map(st.just, fault), _skips))
_of_edits = _passing.flatmap(lambda fault: st.builds(_Fault, st.just("edit"), *map(st.just, fault), _skips))
_refusals = st.builds(
    _Fault,
    st.sampled_from(["send", "edit"]),
    st.just(ContentRefused()),
    st.just(False),
    _skips,
    st.just(True),
)


def _moved_once(faults: list[_Fault]) -> list[_Fault]:
    """Keep one move: a chat that moves to where it already is counts as unreachable."""
    first = next((fault for fault in faults if isinstance(fault.error, ChatMoved)), None)
    return [fault for fault in faults if fault is first or not isinstance(fault.error, ChatMoved)]


_faults = st.tuples(
    st.lists(_of_sends, max_size=8),
    st.lists(_of_edits, max_size=8),
    st.lists(_refusals, max_size=2),
).map(lambda drawn: _moved_once([*drawn[0], *drawn[1], *drawn[2]]))

_measures: st.SearchStrategy[Measure] = st.sampled_from([len, utf16_length])


async def _publish_turn(room: ChatHarness, steps: list[str], sizes: list[int], pauses: list[int]) -> None:
    """Publish the steps of a turn in chunks of these sizes, and let delivery catch up now and then."""
    room.play(TurnStarted("msg", "hi"))
    for number, step in enumerate(steps):
        position = count = 0
        while position < len(step):
            size = sizes[count % len(sizes)]
            room.play(TextDelta(step[position : position + size]))
            position += size
            for _ in range(pauses[count % len(pauses)]):
                await asyncio.sleep(0)
            count += 1
        if number < len(steps) - 1:
            room.play(ToolStarted(f"c{number}", "tool", "{}"))
            for _ in range(pauses[0]):
                await asyncio.sleep(0)
            room.play(ToolFinished(f"c{number}", "tool", True, "", 0.1))
    room.play(TurnDone(steps[-1]))
    await room.ends()


@given(
    steps=st.lists(texts, min_size=1, max_size=3),
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=6),
    pauses=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    faults=_faults,
    limit=st.integers(80, 300),
    measure=_measures,
)
@settings(
    max_examples=70,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
async def test_people_read_the_text(
    steps: list[str],
    sizes: list[int],
    pauses: list[int],
    faults: list[_Fault],
    limit: int,
    measure: Measure,
) -> None:
    """Nothing is lost, repeated or reordered, and every doubt is marked."""
    service = ChatService(limit=limit, measure=measure, pace=0.0)
    for fault in faults:
        service.fail(
            fault.verb,
            fault.error,
            skip=fault.skip,
            executed=fault.executed,
            when=partial(_hits, fault),
        )
    async with chat_room(service, timing=AT_ONCE) as room:
        await _publish_turn(room, steps, sizes, pauses)
        shown = [m for m in service.messages if m.data is None and not m.text.startswith("⚙")]
        assert reads_as(shown, "".join(steps)), [m.text for m in shown]
        for message, following in pairwise(shown):
            assert not message.is_ghost or following.text.startswith(POSSIBLY_TWICE)
