"""What a call costs: as it is told, as the table says, and nothing on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from agent.errors import BadRequest, BudgetReached, ModelError, NetworkFailed
from agent.llm import ChatRequest
from agent.llm.guards import spending_for
from agent.store import Address, Spent
from gateway.config.schema import LimitsConfig, TranscriptionConfig
from gateway.limits import Limits
from gateway.models.litellm_runtime import close_connections
from gateway.models.selection import ModelSpec, build_llm, is_local
from gateway.models.transcription import PaidTranscriber, Transcriber
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.transcription import FakeTranscription
from tests.support.stores import temporary_store

ASK = ChatRequest([{"role": "user", "content": "hi"}])
ANNA = "telegram:1"


@pytest.fixture
async def put_away() -> AsyncIterator[None]:
    """The client's connections are closed as at the end of Hermes."""
    yield
    await close_connections()


@pytest.mark.parametrize(("model", "is_free"), [("openai/house-model", True), ("openai/gpt-4.1-mini", False)])
async def test_a_model_on_this_machine_is_free_unless_it_has_a_price(model: str, is_free: bool) -> None:
    """A name from the table could be a proxy here that somebody pays for elsewhere."""
    async with FakeOpenAI() as server:
        server.reply("Hi.")
        llm = await asyncio.to_thread(build_llm, ModelSpec(model, server.base_url, "test-key"), keys={})
        usage = (await llm.complete(ASK)).usage
        await llm.close()
    assert usage.cost_usd is not None and (usage.cost_usd == 0) == is_free


@pytest.mark.parametrize(
    ("base_url", "is_here"),
    [
        ("http://127.0.0.1:11434/v1", True),
        ("http://[::1]:8080", True),
        ("http://localhost/v1", True),
        ("http://127.0.0.1.example/v1", False),
        ("https://models.example/v1", False),
        (None, False),
    ],
)
def test_what_is_on_this_machine(base_url: str | None, is_here: bool) -> None:
    """By the address and not by a name that looks like it."""
    assert is_local(base_url) == is_here


@pytest.mark.usefixtures("put_away")
async def test_voice_is_paid_by_whoever_spoke() -> None:
    """At the price of the seconds that were reported; and when the money is gone nothing is sent."""
    store = await temporary_store()
    conversation = await store.sessions.open_conversation(Address("telegram", "1"), person=ANNA)
    budget = Limits(LimitsConfig(daily_usd_per_person=0.01), store.sessions).budget
    async with FakeTranscription.open("Buy milk.") as server:
        server.usage = {"type": "duration", "seconds": 90}
        transcribe = PaidTranscriber(_transcriber(server), store.sessions, budget)
        with spending_for(ANNA):
            for _ in range(2):
                assert await transcribe("v.ogg", b"OggS", conversation) == "Buy milk."
            with pytest.raises(BudgetReached):
                await transcribe("v.ogg", b"OggS", conversation)
        assert len(server.heard) == 2
    assert await store.sessions.spent(spender=ANNA) == Spent(pytest.approx(0.018))


@pytest.mark.usefixtures("put_away")
@pytest.mark.parametrize(
    ("model", "usage", "cost"),
    [
        (
            "openai/gpt-4o-mini-transcribe",
            {
                "type": "tokens",
                "input_tokens": 140,
                "input_token_details": {"text_tokens": 0, "audio_tokens": 140},
                "output_tokens": 45,
                "total_tokens": 185,
            },
            0.0004,
        ),
        ("openai/whisper-1", {"type": "duration", "seconds": 30}, 0.003),
        ("openai/house-ears", {"type": "duration", "seconds": 30}, 0.0),
    ],
)
async def test_what_a_recording_costs(model: str, usage: dict[str, Any], cost: float) -> None:
    """In tokens, in seconds, and nothing where a model of one's own listens."""
    async with FakeTranscription.open() as server:
        server.usage = usage
        heard = await _transcriber(server, model)("v.ogg", b"OggS")
    assert heard.usage.cost_usd == pytest.approx(cost)


@pytest.mark.usefixtures("put_away")
async def test_silence_costs_as_much_as_words() -> None:
    """The provider has listened to it."""
    store = await temporary_store()
    conversation = await store.sessions.open_conversation(Address("telegram", "1"), person=ANNA)
    budget = Limits(LimitsConfig(daily_usd_per_person=0.01), store.sessions).budget
    async with FakeTranscription.open(" ") as server:
        server.usage = {"type": "duration", "seconds": 90}
        transcribe = PaidTranscriber(_transcriber(server), store.sessions, budget)
        with spending_for(ANNA), pytest.raises(ModelError, match="no speech"):
            await transcribe("v.ogg", b"OggS", conversation)
    assert await store.sessions.spent(spender=ANNA) == Spent(pytest.approx(0.009))


@pytest.mark.usefixtures("put_away")
async def test_a_recording_that_nobody_waits_for() -> None:
    """It counts as much as the last of that size did; one that was refused, or reached nobody, counts nothing."""
    store, recording = await temporary_store(), b"OggS" * 250
    conversation = await store.sessions.open_conversation(Address("telegram", "1"), person=ANNA)
    budget = Limits(LimitsConfig(daily_usd_per_person=1.0), store.sessions).budget
    async with FakeTranscription.open("Buy milk.") as server:
        server.usage = {"type": "duration", "seconds": 30}
        transcribe = PaidTranscriber(_transcriber(server), store.sessions, budget)
        with spending_for(ANNA):
            await transcribe("v.ogg", recording, conversation)
            server.until = asyncio.Event()
            server.arrived.clear()
            waiting = asyncio.create_task(transcribe("v.ogg", recording, conversation))
            await asyncio.wait_for(server.arrived.wait(), 20)
            waiting.cancel()
            await asyncio.wait([waiting])
            server.until.set()
            server.status = 400
            with pytest.raises(BadRequest):
                await transcribe("v.ogg", recording, conversation)
    with spending_for(ANNA), pytest.raises(NetworkFailed):
        await transcribe("v.ogg", recording, conversation)
    spent = await budget.of_person(ANNA)
    assert (spent.reported, spent.assumed) == (pytest.approx(0.003), pytest.approx(0.003))


def _transcriber(server: FakeTranscription, model: str = "openai/whisper-1") -> Transcriber:
    return Transcriber(TranscriptionConfig(model=model, base_url=server.url, api_key=SecretStr("test-key")))
