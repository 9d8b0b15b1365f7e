"""Hermes is stopped in the middle of its answers and started again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from tests.contract.platforms.conftest import SharedHarness, Surfaces
from tests.contract.platforms.harness import ContractHarness
from tests.contract.platforms.scripted_model import echo, heard, newest, tool_results
from tests.contract.platforms.surface import CONTRACT, Person, Shown
from tests.fakes.script import Call, Reply

pytestmark = CONTRACT

EVERYWHERE = pytest.mark.parametrize("name", ["telegram", "discord", "web"])
CHATS = pytest.mark.parametrize("name", ["telegram", "discord"])
DANGEROUS = Reply(tool_calls=[Call("terminal", {"command": "echo the danger has happened"})])


@dataclass
class Talk:
    """What was said on one surface by the time Hermes is up again."""

    ada: Person
    said: Any
    """A message of hers that was answered long before."""
    bob: Person
    asked: Shown
    """The question that he has not answered."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def story(shared: SharedHarness) -> AsyncIterator[tuple[ContractHarness, dict[str, Talk]]]:
    """Answers are being written and a question is open when Hermes is stopped; people write on while it is away."""
    harness = await shared.harness("usual")
    harness.model.forget()
    talks = {name: await _talk(harness, shared.surfaces, name) for name in ("telegram", "discord", "web")}
    await harness.hermes.stop()
    for name in ("telegram", "discord"):
        await talks[name].ada.says(f"written on {name} while you were away")
    await shared.restart("other")
    harness.telegram.redeliver(talks["telegram"].said)
    yield harness, talks


async def _talk(harness: ContractHarness, surfaces: Surfaces, name: str) -> Talk:
    ada, bob = await surfaces[name].person("Ada"), await surfaces[name].person("Bob")
    said = await ada.says(f"my boat on {name} is called Heron")
    await ada.is_answered("is called Heron")
    harness.model.answers("be careful", DANGEROUS)
    await bob.says(f"be careful on {name}")
    asked = await bob.is_asked()
    await bob.says("and one more thing")
    await bob.sees(bob.waiting)
    harness.model.answers(f"story for {name}", Reply("There was once a boat and it", hold=True, after=6))
    await ada.says(f"a story for {name}")
    await ada.sees("There was once a boat")
    return Talk(ada, said, bob, asked)


@EVERYWHERE
async def test_the_conversation_goes_on(story: tuple[ContractHarness, dict[str, Talk]], name: str) -> None:
    """The next message is answered, and the model knows what was said before, the unanswered question too."""
    harness, talks = story
    await talks[name].ada.asks("what is my boat called?")
    asked = [seen for seen in harness.model.requests("what is my boat called?") if name in str(heard(seen))]
    history = heard(asked[-1])
    assert f"my boat on {name} is called Heron" in history
    assert f"a story for {name}" in history


@CHATS
async def test_what_was_written_meanwhile(story: tuple[ContractHarness, dict[str, Talk]], name: str) -> None:
    """A message that was sent while Hermes was away is answered."""
    _, talks = story
    await talks[name].ada.is_answered("while you were away")


@EVERYWHERE
async def test_an_open_question_is_withdrawn(
    story: tuple[ContractHarness, dict[str, Talk]], name: str
) -> None:
    """A button from before does nothing any more, and what it was about never runs."""
    harness, talks = story
    bob = talks[name].bob
    assert await bob.presses(talks[name].asked, "Once") == "This request is no longer open."
    await bob.asks(f"did it run on {name}?")
    (asked,) = harness.model.requests(f"did it run on {name}?")
    assert not any("the danger has happened" in result for result in tool_results(asked))
    assert not any(shown.buttons for shown in bob.messages())


@EVERYWHERE
async def test_what_waited_is_answered(story: tuple[ContractHarness, dict[str, Talk]], name: str) -> None:
    """What was being answered when Hermes stopped, and what waited behind it, is answered when it is back."""
    harness, talks = story
    bob = talks[name].bob
    await bob.is_answered(echo("and one more thing"))
    if name != "web":
        await bob.sees("continues this answer after the next start")
        await bob.no_longer_sees(bob.waiting)
    await bob.asks(f"what did I say on {name}?")
    (asked,) = harness.model.requests(f"what did I say on {name}?")
    assert "and one more thing" in heard(asked)


async def test_nothing_is_answered_twice(story: tuple[ContractHarness, dict[str, Talk]]) -> None:
    """Hermes recognizes an old Telegram update after a restart."""
    harness, talks = story
    await talks["telegram"].ada.asks("was there anything else?")
    asked = [newest(seen) for seen in harness.model.requests()]
    assert asked.count("my boat on telegram is called Heron") == 1
