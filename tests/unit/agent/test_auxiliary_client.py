"""The synchronous door: called by worker threads, answered by the event loop."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from contextvars import Context, copy_context
from typing import Any

import pytest

from agent.auxiliary_client import (
    CACHED_PREFIX_TASK,
    AuxiliaryResponse,
    Deadline,
    bound,
    call_llm,
    context_length_of,
)
from agent.errors import ModelError, NetworkFailed, RateLimited
from agent.llm import ChatRequest, Completion, LLMClient, Usage
from agent.messages import ChatDict
from agent.testing import ScriptedLLM, Step

MESSAGES: list[ChatDict] = [{"role": "user", "content": "Summarise this."}]


ANSWER = Completion("Short.", finish_reason="length", usage=Usage(120, 7), model="test/oracle")


def saying(text: str) -> ScriptedLLM:
    return ScriptedLLM([dataclasses.replace(ANSWER, text=text)])


def never_answering() -> ScriptedLLM:
    return ScriptedLLM([[asyncio.Event()]])


async def in_thread(**arguments: Any) -> AuxiliaryResponse:
    return await asyncio.to_thread(call_llm, **{"task": "compression", "messages": MESSAGES, **arguments})


async def ask(llm: LLMClient, **arguments: Any) -> AuxiliaryResponse:
    with bound(lambda task, model: llm):
        return await in_thread(**arguments)


async def test_an_engine_can_ask_for_the_window_of_a_model() -> None:
    """Each task may have a model of its own."""
    assert context_length_of("compression") is None
    sizes = {("compression", None): 8_000, ("compression", "main"): 200_000}
    with bound(lambda task, model: ScriptedLLM(context_length=sizes[task, model])):
        assert await asyncio.to_thread(context_length_of, "compression") == 8_000
        assert await asyncio.to_thread(context_length_of, "compression", "main") == 200_000


async def test_a_worker_thread_gets_the_openai_shape() -> None:
    """What an engine reads is where OpenAI's library has it."""
    response = await ask(saying("Short."))
    assert response.choices[0].message.content == "Short."
    assert response.choices[0].message.role == "assistant"
    assert response.choices[0].finish_reason == "length"
    assert (response.usage.prompt_tokens, response.usage.completion_tokens) == (120, 7)
    assert response.usage.total_tokens == 127
    assert response.model == "test/oracle"


async def test_the_response_cannot_be_changed() -> None:
    """One answer may be read in several places."""
    response = await ask(saying("Short."))
    with pytest.raises(dataclasses.FrozenInstanceError):
        response.choices[0].message.content = "Long."  # type: ignore[misc]


async def test_the_request_reaches_the_model_on_the_event_loop() -> None:
    """Every argument arrives, and the client runs where all clients run."""
    threads: list[int] = []

    def step(request: ChatRequest) -> Completion:
        threads.append(threading.get_ident())
        return ANSWER

    llm = ScriptedLLM([step])
    await ask(llm, max_tokens=50, temperature=0.3)
    assert llm.requests == [ChatRequest(MESSAGES, max_tokens=50, temperature=0.3, purpose="compression")]
    assert threads == [threading.get_ident()]


async def test_the_resolver_is_told_task_and_model() -> None:
    """The host decides who answers which task, and hears which model the engine wishes for."""
    wishes: list[tuple[str, str | None]] = []

    def resolve(task: str, model: str | None) -> LLMClient:
        wishes.append((task, model))
        return saying("Short.")

    with bound(resolve):
        await in_thread()
        await in_thread(task="title", model="openai/gpt-5.4")
    assert wishes == [("compression", None), ("title", "openai/gpt-5.4")]


async def test_usage_is_reported() -> None:
    """What engines spend is accounted like everything else, and failures cost nothing."""
    spent: list[tuple[str, Usage]] = []
    llm = ScriptedLLM([ANSWER, RateLimited()])
    with bound(lambda task, model: llm, on_usage=lambda task, answer: spent.append((task, answer.usage))):
        await in_thread()
        with pytest.raises(RateLimited):
            await in_thread()
    assert spent == [("compression", Usage(120, 7))]


async def test_our_errors_come_through() -> None:
    """The engine sees the error of the client, with what it carries."""
    with pytest.raises(RateLimited, match="Slow down") as caught:
        await ask(ScriptedLLM([RateLimited("Slow down.", retry_after=3.0)]))
    assert caught.value.retry_after == 3.0


async def test_a_timeout_cancels_the_request() -> None:
    """The thread gets the cancellation in time, and the request is closed."""
    with pytest.raises(NetworkFailed, match=r"within 0\.05 seconds") as caught:
        await ask(never_answering(), timeout=0.05)
    assert caught.traceback[-1].name == "ask", "the loop reports the timeout before the thread gives up"
    assert asyncio.all_tasks() == {asyncio.current_task()}, "the request is gone"


async def test_a_stopping_host_releases_the_thread() -> None:
    """When the gateway cancels its tasks, the engine gets an error instead of waiting for ever."""
    asked = asyncio.Event()

    def step(request: ChatRequest) -> list[asyncio.Event]:
        asked.set()
        return [asyncio.Event()]

    thread = asyncio.create_task(ask(ScriptedLLM([step])))
    await asked.wait()
    for task in asyncio.all_tasks() - {thread, asyncio.current_task()}:
        task.cancel()
    with pytest.raises(ModelError, match="Hermes stopped"):
        await thread


async def test_a_conversations_binding_follows_into_its_thread() -> None:
    """Two conversations at once get their own models."""
    answers = await asyncio.gather(ask(saying("Ada's")), ask(saying("Bob's")))
    assert [answer.choices[0].message.content for answer in answers] == ["Ada's", "Bob's"]


async def test_a_fork_continues_the_conversation() -> None:
    """The provider reads its cached prefix: messages, tools and their choice stay as they were."""
    llm, tool = ScriptedLLM([ANSWER, ANSWER]), {"type": "function", "function": {"name": "look"}}
    said = ChatRequest([{"role": "user", "content": "Hello."}], (tool,), max_tokens=900)
    with bound(lambda task, model: llm, prefix=lambda: said):
        await in_thread(task=CACHED_PREFIX_TASK, max_tokens=50)
        await in_thread()
    fork, other = llm.requests
    assert fork == ChatRequest(
        [*said.messages, *MESSAGES], (tool,), max_tokens=50, purpose=CACHED_PREFIX_TASK
    )
    assert other == ChatRequest(MESSAGES, purpose="compression")


async def test_the_event_loop_itself_is_refused() -> None:
    """On the loop it could only wait for itself; the error says what to do instead."""
    llm = saying("Short.")
    with bound(lambda task, model: llm), pytest.raises(RuntimeError, match=r"asyncio\.to_thread"):
        call_llm(task="compression", messages=MESSAGES)
    assert llm.requests == []


def test_nothing_bound_is_refused() -> None:
    """Before the host binds a model, the error says that there is none."""
    with pytest.raises(RuntimeError, match="bind"):
        call_llm(task="compression", messages=MESSAGES)


def test_a_loop_that_ended_is_refused() -> None:
    """A binding that outlived its event loop does not make the caller wait."""

    async def leave() -> Context:
        with bound(lambda task, model: saying("Short.")):
            return copy_context()

    context = asyncio.run(leave())
    with pytest.raises(RuntimeError, match="not running"):
        context.run(call_llm, task="compression", messages=MESSAGES)


async def test_a_deadline_holds_for_all_calls_together() -> None:
    """It can be brought forward while a call runs; after it no model is asked."""
    asked = asyncio.Event()

    def hang(request: ChatRequest) -> Step:
        asked.set()
        return [asyncio.Event()]

    llm, deadline = ScriptedLLM([hang, "Too late."]), Deadline()
    with bound(lambda task, model: llm, deadline=deadline):
        call = asyncio.create_task(in_thread())
        await asked.wait()
        deadline.bring_forward(0.0)
        with pytest.raises(ModelError, match="stopped waiting"):
            await asyncio.wait_for(call, 30)
        assert deadline.missed
        with pytest.raises(ModelError, match="stopped waiting"):
            await in_thread()
    assert len(llm.requests) == 1


async def test_a_deadline_is_never_put_off() -> None:
    """Two of them bring it forward: the nearer one counts."""
    llm, deadline = ScriptedLLM(["Short."]), Deadline(0.0)
    deadline.bring_forward(3_600.0)
    with (
        bound(lambda task, model: llm, deadline=deadline),
        pytest.raises(ModelError),
    ):
        await in_thread()
    assert llm.requests == []
    assert not deadline.missed, "no model was asked, so none was too slow"
