"""Any text in any chunks, with processes that die at any step: people read the stored text in the end."""

from __future__ import annotations

from functools import partial

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.chat.delivery.item import POSSIBLY_TWICE
from gateway.chat.delivery.text_message import CURSOR
from gateway.chat.errors import DeliveryError, MessageGone, SlowDown, Unreachable
from tests.support.chat_harness import reads_as
from tests.support.chat_service import ChatService, Verb
from tests.support.crashing_process import CrashHarness, Process
from tests.support.markdown_texts import texts

_faults: st.SearchStrategy[tuple[Verb, DeliveryError, bool]] = st.sampled_from(
    [
        ("send", SlowDown(0.0), False),
        ("send", Unreachable(maybe_done=False), False),
        ("send", Unreachable(maybe_done=True), True),
        ("edit", Unreachable(maybe_done=True), True),
        ("edit", MessageGone(), False),
    ]
)


@given(
    lives=st.lists(st.tuples(st.lists(texts, min_size=2, max_size=2), st.integers(1, 60)), max_size=4),
    last=st.lists(texts, min_size=2, max_size=2),
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=4),
    pauses=st.lists(st.integers(0, 80), min_size=1, max_size=4),
    faults=st.lists(st.tuples(_faults, st.integers(0, 6)), max_size=2),
    can_edit=st.booleans(),
)
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
async def test_people_read_what_is_stored(
    lives: list[tuple[list[str], int]],
    last: list[str],
    sizes: list[int],
    pauses: list[int],
    faults: list[tuple[tuple[Verb, DeliveryError, bool], int]],
    can_edit: bool,
) -> None:
    """Each process writes again, in other chunks, what the one before it had not stored."""
    service = ChatService(limit=120, can_edit=can_edit, pace=0.0)
    for (verb, error, executed), skip in faults:
        service.fail(verb, error, skip=skip, executed=executed)
    harness = await CrashHarness.create(service)

    async def answering(steps: list[str], process: Process) -> None:
        await process.answer(steps, sizes, pauses)

    async def doing_nothing(process: Process) -> None:
        """Check that everything was delivered."""

    for steps, crash_at in lives:
        await harness.run(partial(answering, steps), crash_at=crash_at)
    await harness.run(partial(answering, last))

    shown = [m for m in service.messages if m.data is None and not (m.is_ghost and m.text.startswith("⚙"))]
    assert reads_as(shown, await harness.stored_text()), [(m.text, m.is_ghost) for m in shown]
    can_be_finished = not any(isinstance(error, MessageGone) for (_, error, _), _ in faults)
    for message in shown:
        assert message.is_ghost or not message.text.startswith("⚙")
        assert message.is_ghost or CURSOR not in message.text or not can_be_finished
    for number, message in enumerate(shown):
        after = [later.text for later in shown[number:] if not later.is_ghost]
        assert not message.is_ghost or not after or any(POSSIBLY_TWICE in text for text in after)
    await harness.run(doing_nothing)
    assert await harness.undelivered() == []
    assert service.violations == []
    await harness.store.close()
