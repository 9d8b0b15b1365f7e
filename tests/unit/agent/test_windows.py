"""Windows that are smaller than believed: what is learned from a refusal, for how long, and what comes of it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.context_compressor import ContextCompressor
from agent.errors import BadRequest, ContextOverflow, ModelError
from agent.events import Compacted, Notice, TurnDone, TurnEvent
from agent.llm import ChatRequest, Completion, Usage
from agent.llm.guards import KEPT_SECONDS, Windows, estimated_size
from agent.llm.retry import RetryingLLM
from agent.llm.selection import ModelSelector
from agent.loop import Agent, Turn
from agent.messages import Message
from agent.store import Address, Conversation
from agent.testing import ScriptedLLM, Step
from gateway.store.sqlite.store import SqliteStore
from tests.support.agents import make_agent

BELIEVED = 131_072
LONG = ChatRequest([{"role": "user", "content": "word " * 8_000}])
"""About 10k tokens."""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path / "state.db")
    yield opened
    await opened.close()


def model(*steps: Step, window: int = BELIEVED) -> ScriptedLLM:
    return ScriptedLLM(steps, model="local/model", context_length=window)


def measured(llm: ScriptedLLM, windows: Windows, *, max_tokens: int | None = None) -> RetryingLLM:
    return RetryingLLM([llm], windows=windows, max_tokens=max_tokens)


async def refused(llm: ScriptedLLM, windows: Windows, request: ChatRequest = LONG) -> ContextOverflow:
    with pytest.raises(ContextOverflow) as caught:
        await measured(llm, windows).complete(request)
    return caught.value


async def test_a_named_limit_is_believed(store: SqliteStore) -> None:
    """At once, by every conversation, and after a restart."""
    windows = await Windows.load(store.sessions)
    chain = measured(model(ContextOverflow(limit=8_192)), windows)
    assert chain.context_length == BELIEVED
    with pytest.raises(ContextOverflow) as caught:
        await chain.complete(LONG)
    assert caught.value.learned and (caught.value.model, caught.value.context_length) == (
        "local/model",
        8_192,
    )
    assert chain.context_length == 8_192
    assert measured(model(), await Windows.load(store.sessions)).context_length == 8_192


async def test_without_a_number_what_was_refused_is_the_measure(store: SqliteStore) -> None:
    """Half of what is believed, or the refused prompt if that is smaller; and on from there."""
    windows = await Windows.load(store.sessions)
    await refused(model(ContextOverflow()), windows)
    assert windows.of("local/model", BELIEVED) == estimated_size(LONG)
    shorter = ChatRequest([{"role": "user", "content": "word " * 4_000}])
    await refused(model(ContextOverflow()), windows, shorter)
    assert windows.of("local/model", BELIEVED) == estimated_size(LONG) // 2


async def test_a_prompt_that_could_not_fit_teaches_nothing(store: SqliteStore) -> None:
    """Counts are estimates: near the believed window, that window is not in doubt."""
    windows = await Windows.load(store.sessions)
    error = await refused(model(ContextOverflow(), window=12_000), windows)
    assert error.learned is None
    assert windows.of("local/model", 12_000) == 12_000
    assert await store.sessions.learned_windows() == []


async def test_a_larger_limit_changes_nothing(store: SqliteStore) -> None:
    """A provider may name what the model could hold at most."""
    windows = await Windows.load(store.sessions)
    assert (await refused(model(ContextOverflow(limit=200_000)), windows)).learned is None
    assert windows.of("local/model", BELIEVED) == BELIEVED


async def test_another_setting_is_taken_at_its_word(store: SqliteStore) -> None:
    """What was learned counts beside the window that was believed then."""
    windows = await Windows.load(store.sessions)
    await refused(model(ContextOverflow(limit=8_192)), windows)
    assert windows.of("local/model", 16_384) == 16_384
    assert windows.of("other/model", BELIEVED) == BELIEVED


async def test_the_same_name_elsewhere_is_another_model(store: SqliteStore) -> None:
    """Two servers may serve one name with different windows, also after a restart."""
    windows = await Windows.load(store.sessions)
    here = ScriptedLLM(
        [ContextOverflow(limit=8_192)], model="local/model", context_length=BELIEVED, endpoint="a:1"
    )
    there = ScriptedLLM(
        [ContextOverflow(limit=4_096)], model="local/model", context_length=BELIEVED, endpoint="b:2"
    )
    for known, expected in (([here], (8_192, BELIEVED)), ([there], (8_192, 4_096))):
        for llm in known:
            await refused(llm, windows)
        for each in (windows, await Windows.load(store.sessions)):
            assert (measured(here, each).context_length, measured(there, each).context_length) == expected


async def test_after_a_week_it_is_tried_again(store: SqliteStore) -> None:
    """The server may have been given more."""
    windows = await Windows.load(store.sessions)
    await refused(model(ContextOverflow(limit=8_192)), windows)
    learned = await store.sessions.learned_windows()
    for seconds, window in ((KEPT_SECONDS - 60, 8_192), (KEPT_SECONDS + 60, BELIEVED)):
        later = Windows(store.sessions, learned, clock=lambda: time.time() + seconds)  # noqa: B023 - used at once
        assert later.of("local/model", BELIEVED) == window


async def test_the_answer_leaves_room_for_the_prompt(store: SqliteStore) -> None:
    """A `max_tokens` as large as the real window would make every prompt too long."""
    windows, llm = await Windows.load(store.sessions), model(ContextOverflow(limit=8_192), "Yes.", "Yes.")
    bounded = measured(llm, windows, max_tokens=8_192)
    with pytest.raises(ContextOverflow):
        await bounded.complete(LONG)
    await bounded.complete(LONG)
    await bounded.complete(ChatRequest(LONG.messages, max_tokens=100))
    assert [request.max_tokens for request in llm.requests] == [None, 2_048, 100]


@dataclass
class AgentHarness:
    agent: Agent
    llm: ScriptedLLM
    store: SqliteStore
    folder: Path

    async def say(self, text: str, *steps: Step) -> list[TurnEvent]:
        self.llm.then(*steps)
        conversation = await self.store.sessions.open_conversation(Address("web", "desk"), person="owner")
        turn = Turn(conversation, Message("user", text), self.folder)
        return [event async for event in self.agent.run(turn)]

    async def fill(self, turns: int) -> None:
        """About 300 tokens each."""
        for number in range(turns):
            await self.say(f"Question {number}. " + "word " * 200, reply("detail " * 20))


def reply(text: str) -> Completion:
    return Completion(text, usage=Usage(900, 10), model="local/model")


@asynccontextmanager
async def open_harness(tmp_path: Path, store: SqliteStore) -> AsyncIterator[AgentHarness]:
    llm, windows = model(), await Windows.load(store.sessions)
    chain = measured(llm, windows)
    agent = make_agent(
        chain,
        store.sessions,
        models=ModelSelector(chain, store.sessions, windows=windows),
        engine=lambda: ContextCompressor(
            BELIEVED, protect_last_n=2, summarize=lambda prompt, limit: "## Goal"
        ),
        background_at=1.0,
    )
    yield AgentHarness(agent, llm, store, tmp_path)
    await agent.close()


def notices(events: Sequence[TurnEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


def compactions(events: Sequence[TurnEvent]) -> int:
    return sum(isinstance(event, Compacted) for event in events)


async def test_it_is_tried_until_it_fits(tmp_path: Path, store: SqliteStore) -> None:
    """Without a number: as often as it takes, within bounds; the owner hears once what was found in the end."""
    async with open_harness(tmp_path, store) as harness:
        await harness.fill(20)
        events = await harness.say("Well?", ContextOverflow(), ContextOverflow(), reply("Yes."))
        assert compactions(events) == 2
        assert events[-1] == TurnDone("Yes.")
        [told] = notices(events)
        [window] = await store.sessions.learned_windows()
        assert f"local/model seems to hold {window.tokens:,} tokens, not 131,072 as believed" in told
        assert f"`model.context_length: {window.tokens}`" in told
        assert notices(await harness.say("Well?", reply("Yes."))) == []
        sizes = [estimated_size(request) for request in harness.llm.requests[-4:-1]]
        assert sizes == sorted(sizes, reverse=True), "each attempt is shorter"


async def test_it_is_not_tried_for_ever(tmp_path: Path, store: SqliteStore) -> None:
    """A model that refuses everything is asked a few times."""
    async with open_harness(tmp_path, store) as harness:
        await harness.fill(20)
        asked = len(harness.llm.requests)
        with pytest.raises(ContextOverflow):
            await harness.say("Well?", *[ContextOverflow()] * 20)
        assert len(harness.llm.requests) - asked <= 5
        assert await store.sessions.learned_windows() == [], "a guess that did not help is withdrawn"
        assert (
            harness.agent.models.windows
            and harness.agent.models.windows.of("local/model", BELIEVED) == BELIEVED
        )


async def test_when_only_the_answer_had_no_room(tmp_path: Path, store: SqliteStore) -> None:
    """Nothing is compacted, and the call is made again with a shorter answer."""
    async with open_harness(tmp_path, store) as harness:
        events = await harness.say("Well?", ContextOverflow(limit=8_192), reply("Yes."))
        assert events[-1] == TurnDone("Yes.")
        assert compactions(events) == 0


async def test_an_unexplained_refusal_of_a_long_prompt(tmp_path: Path, store: SqliteStore) -> None:
    """It is compacted once and asked again. Nothing is concluded about the model."""
    async with open_harness(tmp_path, store) as harness:
        await harness.fill(20)
        events = await harness.say("Well?", BadRequest(unexplained=True), reply("Yes."))
        assert (compactions(events), notices(events), events[-1]) == (1, [], TurnDone("Yes."))
        assert await store.sessions.learned_windows() == []
        runner = await harness.agent.auto_compaction.compactor.engines.get(
            await harness.agent.open(await _conversation(store))
        )
        assert runner.engine.context_length == BELIEVED


async def test_a_compaction_that_did_not_help_is_not_repeated(tmp_path: Path, store: SqliteStore) -> None:
    """Until the model has answered again: then the next refusal may be about the length."""
    async with open_harness(tmp_path, store) as harness:
        await harness.fill(20)
        with pytest.raises(BadRequest):
            await harness.say("Well?", BadRequest(unexplained=True), BadRequest(unexplained=True))
        sessions = len(await store.sessions.sessions((await _conversation(store)).id))
        await harness.fill(12)
        for _ in range(2):
            with pytest.raises(BadRequest):
                await harness.say("Well?", BadRequest(unexplained=True), BadRequest(unexplained=True))
            harness.llm._steps.clear()
        assert len(await store.sessions.sessions((await _conversation(store)).id)) == sessions + 1


@pytest.mark.parametrize("error", [BadRequest(), BadRequest("openai said: the image is broken")])
async def test_an_explained_refusal_compacts_nothing(
    tmp_path: Path, store: SqliteStore, error: ModelError
) -> None:
    """The provider says what is wrong, and it is not the length."""
    async with open_harness(tmp_path, store) as harness:
        await harness.fill(20)
        with pytest.raises(BadRequest):
            await harness.say("Well?", error)
        assert len(await store.sessions.sessions((await _conversation(store)).id)) == 1


async def test_a_short_prompt_is_not_compacted(tmp_path: Path, store: SqliteStore) -> None:
    """There its length cannot be the reason."""
    async with open_harness(tmp_path, store) as harness:
        await harness.fill(3)
        with pytest.raises(BadRequest):
            await harness.say("Well?", BadRequest(unexplained=True))


async def _conversation(store: SqliteStore) -> Conversation:
    return await store.sessions.open_conversation(Address("web", "desk"), person="owner")


async def test_a_guess_of_one_chat_does_not_withdraw_what_another_has_learned(store: SqliteStore) -> None:
    """The second chat was told the number."""
    windows = await Windows.load(store.sessions)
    guess = (await refused(model(ContextOverflow()), windows)).learned
    named = (await refused(model(ContextOverflow(limit=4_096)), windows)).learned
    assert guess and named
    await windows.withdraw(guess)
    assert windows.of("local/model", BELIEVED) == 4_096
    assert [each.tokens for each in await store.sessions.learned_windows()] == [4_096]
