"""A draft of an engine that has left its conversation: nothing waits for it, and nothing is made of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.events import Compacted, Notice, TurnDone
from agent.llm import Completion, Usage
from tests.support.lcm_harness import Chat, opened

_PATIENCE = 60.0


@dataclass
class Summariser:
    """The first summary hangs until it is released; the others come at once."""

    loop: asyncio.AbstractEventLoop
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    released: threading.Event = field(default_factory=threading.Event)
    prompts: list[str] = field(default_factory=list)

    def __call__(self, prompt: str, max_tokens: int) -> str:
        self.prompts.append(prompt)
        if len(self.prompts) == 1:
            self.loop.call_soon_threadsafe(self.asked.set)
            self.released.wait(_PATIENCE)
        return "They talked.\nExpand for details about: the talk"


@pytest.fixture
async def slow() -> AsyncIterator[Summariser]:
    made = Summariser(asyncio.get_running_loop())
    yield made
    made.released.set()


@pytest.fixture
async def chat(tmp_path: Path, slow: Summariser) -> AsyncIterator[Chat]:
    async with opened(tmp_path, summarize=slow) as made:
        yield made
        slow.released.set()


@pytest.mark.parametrize("leaving", ["/new", "/undo", "/branch other"])
async def test_nothing_waits_for_the_draft_of_a_discarded_engine(
    chat: Chat, slow: Summariser, leaving: str
) -> None:
    """The old summariser hangs all the while. The new session is compacted and answered without it."""
    await chat.talk(14, "harbour", tokens=3_500)
    await asyncio.wait_for(slow.asked.wait(), _PATIENCE)
    await asyncio.wait_for(chat.say(leaving), _PATIENCE)
    await asyncio.wait_for(chat.talk(14, "meadow", tokens=4_500), _PATIENCE)
    chat.llm.then(Completion("Answered.", usage=Usage(900, 10)))
    events = await asyncio.wait_for(chat.say("And now?"), _PATIENCE)
    assert not slow.released.is_set()
    assert events[-1] == TurnDone("Answered.")
    assert any(isinstance(event, Compacted) for event in events), "the new engine compacts"
    assert not any(isinstance(event, Notice) for event in events)


async def test_a_compress_after_new_does_not_wait_either(chat: Chat, slow: Summariser) -> None:
    await chat.talk(14, "harbour", tokens=3_500)
    await asyncio.wait_for(slow.asked.wait(), _PATIENCE)
    await chat.say("/new")
    await chat.talk(14, "meadow", tokens=1_000)
    events = await asyncio.wait_for(chat.say("/compress"), _PATIENCE)
    assert not slow.released.is_set()
    assert any("Compressed" in event.text for event in events if isinstance(event, Notice)), events
