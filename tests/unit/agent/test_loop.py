"""The agent loop: what the model is asked, what is stored, what the person sees."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.errors import EmptyAnswer, ModelOverloaded
from agent.events import (
    Notice,
    Steered,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnEvent,
    UsageReported,
)
from agent.llm import Completion, Usage
from agent.loop import Agent, Arrived, Turn
from agent.messages import Message, ToolCall
from agent.store import Address, Conversation, SessionStore
from agent.testing import ScriptedLLM, Step
from agent.tool import Tool, ToolContext, tool
from tests.support.agents import make_agent
from tests.support.stores import temporary_store


@dataclass
class AgentHarness:
    """An agent, its model and one conversation."""

    agent: Agent
    llm: ScriptedLLM
    store: SessionStore
    conversation: Conversation
    workspace: Path

    def turn(self, text: str, steering: Sequence[Message] = ()) -> Turn:
        waiting = list(steering)

        async def take() -> Arrived:
            arrived = Arrived(list(waiting), [message.id for message in waiting], waiting.clear)
            return arrived

        return Turn(self.conversation, Message("user", text), self.workspace, take if steering else None)

    async def say(self, text: str, steering: Sequence[Message] = ()) -> list[TurnEvent]:
        return [event async for event in self.agent.run(self.turn(text, steering))]

    async def stored(self) -> list[tuple[str, str]]:
        history = await self.store.history(self.conversation.live_session_id)
        return [(message.role, message.content) for message in history]


async def open_harness(
    tmp_path: Path, steps: Sequence[Step], *, tools: Sequence[Tool] = (), max_iterations: int = 10
) -> AgentHarness:
    store = await temporary_store()
    llm = ScriptedLLM(steps)
    agent = make_agent(llm, store.sessions, tools, max_iterations=max_iterations)
    conversation = await store.sessions.open_conversation(Address("web", "desk"), person="owner")
    return AgentHarness(agent, llm, store.sessions, conversation, tmp_path)


@tool()
async def double(ctx: ToolContext, number: int) -> str:
    """Doubles a number."""
    return str(number * 2)


def call(name: str, call_id: str = "c1", **arguments: object) -> ToolCall:
    return ToolCall(call_id, name, json.dumps(arguments))


async def test_an_answer_is_streamed_and_stored(tmp_path: Path) -> None:
    """The text seen equals the text stored."""
    harness = await open_harness(tmp_path, ["Good morning to you."])
    events = await harness.say("Hello")
    seen = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert seen == "Good morning to you."
    assert events[-1] == TurnDone(seen)
    assert await harness.stored() == [("user", "Hello"), ("assistant", seen)]


async def test_a_tool_is_run_and_its_result_given_to_the_model(tmp_path: Path) -> None:
    """prompt -> model -> tool -> model -> answer."""
    harness = await open_harness(
        tmp_path, [["Let me count. ", call("double", number=21)], "It is 42."], tools=[double]
    )
    events = await harness.say("Twice 21?")
    kinds = [type(event) for event in events if not isinstance(event, TextDelta | UsageReported)]
    assert kinds == [StepStarted, ToolStarted, ToolFinished, StepStarted, TurnDone]
    asked = harness.llm.requests[1].messages
    assert [message["role"] for message in asked] == ["system", "user", "assistant", "tool"]
    assert asked[-1]["content"] == "42"
    assert asked[-1]["tool_call_id"] == asked[-2]["tool_calls"][0]["id"]


async def test_the_system_prompt_is_rendered_once_and_pinned(tmp_path: Path) -> None:
    """A fact learnt mid-session changes no byte of the prefix; the next session knows it."""
    harness = await open_harness(tmp_path, ["one", "two"])
    await harness.say("a")
    await harness.store.remember("owner", "lives in Lisbon")
    await harness.say("b")
    first, second = (request.messages for request in harness.llm.requests)
    assert second[: len(first)] == first
    assert "Lisbon" not in first[0]["content"]


async def test_what_is_remembered_reaches_a_new_session(tmp_path: Path) -> None:
    """Memory outlives a session."""
    harness = await open_harness(tmp_path, ["one"])
    await harness.store.remember("owner", "lives in Lisbon")
    await harness.say("a")
    assert "lives in Lisbon" in harness.llm.requests[0].messages[0]["content"]


async def test_independent_calls_run_at_the_same_time(tmp_path: Path) -> None:
    """Two calls that wait for each other both finish."""
    both_here = asyncio.Barrier(2)

    @tool(timeout=5)
    async def meet(ctx: ToolContext) -> str:
        """Waits for the other one."""
        await both_here.wait()
        return "met"

    harness = await open_harness(tmp_path, [[call("meet", "c1"), call("meet", "c2")], "Done."], tools=[meet])
    events = await harness.say("go")
    assert [event.ok for event in events if isinstance(event, ToolFinished)] == [True, True]


async def test_calls_with_effects_keep_their_order(tmp_path: Path) -> None:
    """Two writes of one answer happen one after the other, as the model wrote them."""
    log: list[str] = []

    @tool(effects=True)
    async def write(ctx: ToolContext, text: str) -> str:
        """Writes."""
        log.append(f"begin {text}")
        await asyncio.sleep(0)
        log.append(f"end {text}")
        return "ok"

    calls = [call("write", "c1", text="a"), call("write", "c2", text="b")]
    harness = await open_harness(tmp_path, [calls, "Done."], tools=[write])
    await harness.say("go")
    assert log == ["begin a", "end a", "begin b", "end b"]


async def test_broken_arguments_are_told_to_the_model(tmp_path: Path) -> None:
    """The model gets a readable error and goes on."""
    broken = [ToolCall("c1", "double", '{"number": ')]
    harness = await open_harness(tmp_path, [broken, [call("double", number=1)], "2"], tools=[double])
    events = await harness.say("go")
    assert [event.ok for event in events if isinstance(event, ToolFinished)] == [False, True]
    assert "not valid JSON" in harness.llm.requests[1].messages[-1]["content"]
    assert events[-1] == TurnDone("2")


async def test_the_last_step_must_answer(tmp_path: Path) -> None:
    """When the budget is used up the model is told so, and the tools stay in the request."""
    again = [call("double", number=1)]
    harness = await open_harness(tmp_path, [again, again, "Half done."], tools=[double], max_iterations=3)
    events = await harness.say("go")
    assert events[-1] == TurnDone("Half done.")
    last = harness.llm.requests[-1]
    assert last.tool_choice == "none"
    assert last.tools == harness.llm.requests[0].tools
    assert "used up" in last.messages[-1]["content"]
    assert [role for role, _ in await harness.stored()].count("user") == 1


async def test_a_message_that_arrives_mid_turn_steers_it(tmp_path: Path) -> None:
    """It is given to the model at the next step."""
    late = Message("user", "and triple it")
    harness = await open_harness(tmp_path, [[call("double", number=2)], "12"], tools=[double])
    events = await harness.say("Twice 2?", steering=[late])
    assert Steered(late.id, "and triple it") in events
    assert harness.llm.requests[1].messages[-1] == {"role": "user", "content": "and triple it"}


async def test_stopping_keeps_what_was_said(tmp_path: Path) -> None:
    """The text on the screen is the text in the store."""
    never = asyncio.Event()
    harness = await open_harness(tmp_path, [["Once upon a time", never, " there was"]])
    seen = asyncio.Event()

    async def watch() -> None:
        async with aclosing(harness.agent.run(harness.turn("A story"))) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    seen.set()

    task = asyncio.create_task(watch())
    await asyncio.wait_for(seen.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await harness.stored() == [("user", "A story"), ("assistant", "Once upon a time")]


async def test_a_call_abandoned_by_a_stop_is_closed_and_not_run_again(tmp_path: Path) -> None:
    """The next turn's history is valid for every provider, and the model knows the effect is unknown."""
    started, runs = asyncio.Event(), []

    @tool(timeout=60, effects=True)
    async def send(ctx: ToolContext) -> str:
        """Sends."""
        runs.append(1)
        started.set()
        await asyncio.Event().wait()
        return "sent"

    harness = await open_harness(
        tmp_path, [[call("send")], "I do not know whether it went out."], tools=[send]
    )
    task = asyncio.create_task(harness.say("Send it"))
    await asyncio.wait_for(started.wait(), 5)
    task.cancel()
    await asyncio.wait([task])
    await harness.say("Did it go out?")
    roles = [message["role"] for message in harness.llm.requests[1].messages]
    assert roles == ["system", "user", "assistant", "tool", "user"]
    assert "unknown" in harness.llm.requests[1].messages[3]["content"]
    assert runs == [1]


async def test_a_failure_after_some_text_keeps_the_text(tmp_path: Path) -> None:
    """Nothing that a person has read disappears from the history."""
    harness = await open_harness(tmp_path, [["Half an ", ModelOverloaded()]])
    with pytest.raises(ModelOverloaded):
        await harness.say("go")
    assert (await harness.stored())[-1] == ("assistant", "Half an ")


async def test_an_empty_answer_is_an_error(tmp_path: Path) -> None:
    """An empty assistant message would be refused by providers for ever after."""
    harness = await open_harness(tmp_path, [Completion("")])
    with pytest.raises(EmptyAnswer):
        await harness.say("go")
    assert await harness.stored() == [("user", "go")]


async def test_an_answer_cut_at_its_limit_says_so(tmp_path: Path) -> None:
    """`finish_reason: length` is not passed over in silence."""
    harness = await open_harness(tmp_path, [Completion("Long text", finish_reason="length")])
    events = await harness.say("go")
    assert isinstance(events[-2], Notice)


async def test_usage_is_recorded_for_every_call(tmp_path: Path) -> None:
    """What the provider reported is in the store."""
    usage = Usage(100, 10, cache_read_tokens=80, cost_usd=0.5)
    steps = [Completion("", (call("double", number=1),), "tool_calls", usage), Completion("2", usage=usage)]
    harness = await open_harness(tmp_path, steps, tools=[double])
    await harness.say("go")
    assert await harness.store.usage(conversation_id=harness.conversation.id) == Usage(200, 20, 160, 0, 1.0)
    session = await harness.store.session(harness.conversation.live_session_id)
    assert session.prompt_tokens == 100


async def test_a_model_without_tools_is_offered_none(tmp_path: Path) -> None:
    """The embedded model cannot call tools."""
    harness = await open_harness(tmp_path, ["Hi."], tools=[double])
    harness.llm.supports_tools = False
    await harness.say("Hello")
    assert harness.llm.requests[0].tools == ()
