"""Engines of conversations: which one is used, and when another takes its place."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from agent.context.engine_pool import EnginePool, Troubles
from agent.context.engine_runner import DEADLINES, HINT_SECONDS
from agent.context.live import LiveContext
from agent.context_engine import ContextEngine
from agent.errors import EngineFailed
from agent.llm.selection import ModelSelector
from agent.messages import Message
from agent.store import Address
from agent.testing import ScriptedLLM
from tests.support.hostile_engine import Deed, Hanging, Hostile, raising
from tests.support.stores import temporary_store


async def pool_of(
    make: Callable[[], ContextEngine], seconds: Mapping[str, float] = DEADLINES
) -> tuple[EnginePool, LiveContext]:
    store = await temporary_store()
    conversation = await store.sessions.open_conversation(Address("web", "desk"), person="owner")
    session = await store.sessions.session(conversation.live_session_id)
    engines = EnginePool(
        make, ModelSelector(ScriptedLLM(), store.sessions), hermes_home=Path("home"), seconds=seconds
    )
    return engines, LiveContext(store.sessions, conversation, session, [Message("user", "A")])


async def test_an_engine_starts_once_however_many_wait_and_stop_waiting() -> None:
    """A caller that is cancelled neither starts a second one nor loses the first."""
    made: list[ContextEngine] = []
    release = threading.Event()

    def make() -> ContextEngine:
        assert release.wait(30)
        made.append(Hostile({}))
        return made[-1]

    engines, live = await pool_of(make)
    first = asyncio.create_task(engines.get(live))
    await asyncio.wait([first], timeout=0.05)
    first.cancel()
    await asyncio.wait([first])
    second = asyncio.create_task(engines.get(live))
    release.set()
    assert (await second).engine is made[0]
    assert await engines.get(live) is await second and len(made) == 1


def test_a_failing_compaction_is_told_beside_a_harmless_failure() -> None:
    """Each once."""
    troubles = Troubles()
    troubles.note("c", "update_from_response", "Usage failed.")
    assert troubles.untold("c") == "Usage failed."
    for _ in range(2):
        troubles.note("c", "update_from_response", "Usage failed.")
        troubles.note("c", "compress", "Compress failed.")
    assert troubles.untold("c") == "Compress failed."
    assert troubles.untold("c") is None


async def test_an_engine_without_a_problem_may_return_none() -> None:
    engine = Hostile({})
    engine.problem = lambda: None  # type: ignore[method-assign, assignment, return-value]
    engines, live = await pool_of(lambda: engine)
    runner = await engines.get(live)
    assert await runner.problem() == ""
    assert engines.troubles.untold(live.conversation.id) is None


def test_an_engine_is_replaced_soon_after_a_turn_stopped_waiting_for_its_hint() -> None:
    """A compaction waits for the engine; one that hangs in a hint must not hold it up for a minute."""
    assert HINT_SECONDS < DEADLINES["hint"] <= 2 * HINT_SECONDS


async def test_an_engine_that_starts_too_late_is_not_used() -> None:
    """The conversation has gone on in another session, of which that engine knows nothing."""
    release = threading.Event()
    ended: list[str] = []

    def late(session_id: str, **kwargs: object) -> None:
        assert release.wait(30)

    deeds: dict[str, Deed] = {
        "on_session_start": late,
        "on_session_end": lambda *given: ended.append(given[0]),
    }
    engines, live = await pool_of(lambda: Hostile(deeds))
    starting = asyncio.create_task(engines.get(live))
    await asyncio.wait([starting], timeout=0.05)
    await engines.discard(live)
    release.set()
    stale = await starting
    assert engines.peek(live.conversation.id) is None
    assert ended == [live.session.id]
    assert await engines.get(live) is not stale


async def test_the_first_engine_that_hangs_is_replaced_and_the_second_not_at_once() -> None:
    """Each keeps a thread, so they must not become many."""
    hanging = Hanging()
    engines, live = await pool_of(
        lambda: Hostile({"should_compress": hanging}), dict.fromkeys(DEADLINES, 0.2)
    )
    for _ in range(2):
        runner = await engines.get(live)
        with pytest.raises(EngineFailed):
            await runner.should_compress(1)
    for text in ("A", "B"):
        live.history.append(Message("user", text))
        with pytest.raises(EngineFailed, match="tried again later"):
            await engines.get(live)
    hanging.release.set()


def test_a_trouble_that_is_over_hides_no_later_one() -> None:
    """A failing member is reported once; a compaction that fails later is still reported."""
    troubles = Troubles()
    troubles.note("c", "should_compress", "first")
    assert troubles.untold("c") == "first"
    troubles.note("c", "compress", "beside the first")
    assert troubles.untold("c") == "beside the first"
    for what in ("should_compress", "compress"):
        troubles.over("c", what)
    troubles.note("c", "should_compress", "again")
    assert troubles.untold("c") is None
    troubles.over("c", "should_compress")
    troubles.note("c", "compress", "second")
    assert troubles.untold("c", "hint") is None
    assert troubles.untold("c", "compress") == "second"


async def test_a_member_that_works_again_is_no_trouble_any_more(tmp_path: Path) -> None:
    """A call that works ends the trouble without a restart."""
    deeds: dict[str, Deed] = {"should_compress": raising(lambda: ValueError("now"))}
    store = await temporary_store()
    conversation = await store.sessions.open_conversation(Address("web", "1"), person="ada")
    session = await store.sessions.session(conversation.live_session_id)
    live = LiveContext(store.sessions, conversation, session, [Message("user", "hi")])
    engines = EnginePool(
        lambda: Hostile(deeds), ModelSelector(ScriptedLLM(), store.sessions), hermes_home=tmp_path
    )
    runner = await engines.get(live)
    with pytest.raises(EngineFailed):
        await runner.should_compress(1)
    assert engines.troubles.untold(conversation.id)
    deeds.clear()
    await runner.should_compress(1)
    engines.troubles.note(conversation.id, "compress", "later")
    assert engines.troubles.untold(conversation.id) == "later"


async def test_a_turn_does_not_use_an_engine_that_hangs_or_was_discarded() -> None:
    """The next lookup starts another one."""
    hanging = Hanging()
    deeds: dict[str, Deed] = {"should_compress": hanging}
    engines, live = await pool_of(lambda: Hostile(deeds), {**DEADLINES, "should_compress": 0.2})
    first = await engines.get(live)
    assert engines.running(live) is first
    with pytest.raises(EngineFailed):
        await first.should_compress(1)
    assert engines.running(live) is None
    second = await engines.get(live)
    assert second is not first and engines.running(live) is second
    await engines.discard(live)
    assert engines.running(live) is None
    hanging.release.set()
