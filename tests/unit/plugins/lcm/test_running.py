"""The engine in the real Hermes, on Telegram, on Discord, on the page and at a terminal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from tests.contract.platforms.discord_driver import DiscordSurface
from tests.contract.platforms.harness import ContractHarness, open_harness
from tests.contract.platforms.surface import Person, Surface
from tests.contract.platforms.telegram_driver import TelegramSurface
from tests.contract.platforms.terminal_driver import TerminalSurface
from tests.contract.platforms.web_driver import WebSurface
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Reply
from tests.support import lcm_running_store as stored
from tests.support.lcm_running_model import (
    CALLED,
    HINT,
    WINDOW,
    LogKeepingModel,
    breaks,
    noted,
    page,
    please_call,
    records,
    tool_result,
    tool_results,
    user_texts,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

SURFACES = ("telegram", "discord", "web", "terminal")
ON_ALL = pytest.mark.parametrize("surface", SURFACES, indirect=True)
PAGES = 24
"""Of about 750 tokens with their answers: more than twice the window."""
TYPED_PAGES = 14
"""At a terminal, where a test takes long to type and to read. Those are short, and their answers are as long."""
COLOURS = dict(zip(SURFACES, ("vermilion", "turquoise", "aubergine", "chartreuse"), strict=True))
LCM = {
    "context": {"engine": "lcm"},
    "compression": {"memory_flush": False},
    "tools": {"enabled": ["write_file"]},
    # People type slower than a test.
    "limits": {"messages_per_minute": None, "owner_messages_per_minute": None},
    "logging": {"level": "warning"},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ContractHarness]:
    server = FakeOpenAI(context_length=WINDOW)
    different = {**LCM, "model": {"context_length": WINDOW}}
    async with open_harness(tmp_path_factory.mktemp("lcm"), server, LogKeepingModel, different) as harness:
        await harness.warms_up()
        yield harness


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def surfaces(harness: ContractHarness) -> AsyncIterator[dict[str, Surface]]:
    async with AsyncExitStack() as stack:
        yield {
            "telegram": TelegramSurface(harness),
            "discord": DiscordSurface(harness),
            "web": WebSurface(harness, stack),
            "terminal": TerminalSurface(harness, stack),
        }


@pytest.fixture
def surface(request: pytest.FixtureRequest, surfaces: dict[str, Surface]) -> Surface:
    return surfaces[request.param]


@pytest.fixture
def model(harness: ContractHarness) -> Iterator[LogKeepingModel]:
    assert isinstance(harness.model, LogKeepingModel)
    harness.model.forget()
    yield harness.model
    assert harness.model.refusals == [], "Hermes asked its model something malformed, or too much"


async def writes_pages(person: Person, first: int, count: int, **how: int) -> None:
    for number in range(first, first + count):
        await person.says(page(number, **how))
        await person.is_answered(noted(number))


async def is_told(person: Person, command: str, words: str) -> str:
    """The answer to a command: all that can be seen since."""
    before = person.count(words)
    await person.says(command)
    await person.until(lambda: person.count(words) > before)
    return next(text for text in reversed(person.visible()) if words in text)


@ON_ALL
async def test_what_left_the_window_is_found_again(
    surface: Surface, harness: ContractHarness, model: LogKeepingModel
) -> None:
    """Said at the beginning, gone from the request, searched in natural words, read whole, told to the person."""
    colour, person = COLOURS[surface.name], await surface.person()
    await person.says(f"My aunt has painted her old boat {colour} this spring.")
    await person.is_answered("I hear you")
    if surface.name == "terminal":
        await writes_pages(person, 0, TYPED_PAGES, sentences=1)
    else:
        await writes_pages(person, 0, PAGES)
    newest = model.conversation[-1]
    assert records(newest) and colour not in str(newest.body)

    await person.says("Do you remember in which colour the boat of my aunt is?")
    await person.is_answered("You told me: My aunt has painted her old boat")
    assert f"her old boat {colour}" in person.visible()[-1], person.visible()[-3:]

    asked, searched, read = model.conversation[-3:]
    assert not any(colour in text for text in user_texts(asked) + records(asked))
    for seen in (searched, read):
        assert tool_result(seen).startswith("<outside-") and colour in tool_result(seen)
    home = harness.hermes.home
    conversation = stored.conversation_of(home, colour)
    happened = stored.compactions(home, conversation)
    assert happened >= 3
    assert breaks(model.conversation) == happened, "between compactions a request only grows at its end"
    assert await stored.agree(home, conversation)
    assert not any("[LCM " in text for text in person.visible())


@ON_ALL
async def test_a_hint_and_the_state_while_a_turn_runs(surface: Surface, model: LogKeepingModel) -> None:
    """The model is reminded of what comes up again, and nobody sees that. `/lcm` waits for nobody."""
    person = await surface.person()
    await person.says("My cousin Ottilie keeps her accordion in the attic of the lighthouse.")
    await person.is_answered("I hear you")
    await writes_pages(person, 100, 4, sentences=2)
    await is_told(person, "/compress", "Compressed:")
    model.answers("accordion", Reply(chunks=["I am done thinking."], hold=True))
    await person.says("Where may Ottilie keep the accordion?")
    await model.holds()
    last = model.conversation[-1].body["messages"][-1]
    assert last["role"] == "user" and last["content"].startswith(HINT) and "in the attic" in last["content"]

    told = " ".join((await is_told(person, "/lcm", "Database:")).split())
    for words in ("of 8,192 tokens (", "in the context,", "Depth 0:", "Coverage: ", "Last compaction: 20"):
        assert words in told, told
    assert "All is well: 10 checks" in await is_told(person, "/lcm doctor", "All is well")
    model.release()
    await person.is_answered("I am done thinking.")
    await is_told(person, "/search accordion lighthouse", "attic")
    assert not any("[LCM " in text or "Nobody wrote this" in text for text in person.visible())
    assert not any("/lcm" in text for seen in model.conversation for text in user_texts(seen))


async def test_nobody_reads_what_another_said(
    surfaces: dict[str, Surface], harness: ContractHarness, model: LogKeepingModel
) -> None:
    """Not with `everywhere`, and not with ids that are guessed: as if there were nothing."""
    ben = await surfaces["telegram"].person("Ben")
    await ben.says("The safe behind the oven opens with the word marzipan.")
    await ben.is_answered("I hear you")
    await writes_pages(ben, 200, 3)
    await is_told(ben, "/compress", "Compressed:")
    anna = await surfaces["telegram"].person("Anna")
    await anna.says("What a day.")
    await anna.is_answered("I hear you")
    before = len(model.requests())

    key, summaries = stored.keys_of(
        harness.hermes.home, stored.conversation_of(harness.hermes.home, "marzipan")
    )
    ids = [f"c{key}.m1", f"c{key}.m1-m9", *(f"{c}s{s}" for s in summaries for c in ("", f"c{key}."))]
    queries: list[dict[str, Any]] = [
        {"query": "What opens the safe behind the oven?"},
        {"query": "safe oven", "mode": "all"},
        {"query": "behind the oven", "mode": "phrase"},
        {"query": "mar.ipan", "mode": "regex"},
    ]
    calls = {
        "lcm_grep": [{**query, "everywhere": True} for query in queries],
        "lcm_expand": [{"id": id} for id in ("m1", *ids)],
        "lcm_describe": [{"id": id} for id in ("m1", *ids)],
        "lcm_expand_query": [{"question": "What opens the safe?", "ids": [id]} for id in ("m1", *ids)],
    }
    for tool, arguments in calls.items():
        done = anna.count(CALLED)
        await anna.says(please_call(tool, *arguments))
        await anna.until(lambda: anna.count(CALLED) > done)  # noqa: B023 - awaited at once
        own, *others = tool_results(model.conversation[-1])
        assert len(others) == len(arguments) - 1
        assert "What a day" in own or tool != "lcm_expand", "what is hers she gets"
        assert all("There is no" in each or tool == "lcm_grep" for each in others), others
    for seen in model.requests()[before:]:
        assert "marzipan" not in str(seen.body) and noted(200) not in str(seen.body)
