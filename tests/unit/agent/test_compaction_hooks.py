"""Steps around a compaction: memory is flushed before, state is carried over after."""

from __future__ import annotations

import json
from pathlib import Path

from agent.context.child_session import for_engine
from agent.context.memory_flush import MemoryFlush
from agent.context_compressor import ContextCompressor
from agent.errors import ModelOverloaded
from agent.llm import Completion
from agent.llm.selection import ModelSelector
from agent.loop import Agent
from agent.messages import Message, ToolCall
from agent.store import Address, Conversation
from agent.testing import ScriptedLLM, Step
from agent.tool import ToolContext
from agent.tools.memory import memory
from agent.tools.todo import todo
from gateway.store.sqlite.store import SqliteStore
from tests.support.agents import make_agent
from tests.support.stores import temporary_store

WINDOW = 4_000


async def conversation(store: SqliteStore, *more: Message) -> Conversation:
    """One that is worth compacting."""
    opened = await store.sessions.open_conversation(Address("web", "desk"), person="owner")
    session = await store.sessions.pin(opened.live_session_id, system_prompt="Be brief.", model="m")
    for number in range(12):
        said = [Message("user", f"Question {number}. " + "word " * 60), Message("assistant", "detail " * 60)]
        await store.sessions.append(session.id, said)
    await store.sessions.append(
        session.id, [*more, Message("user", "And now?"), Message("assistant", "Now.")]
    )
    return opened


def agent_with(store: SqliteStore, *, flush: ScriptedLLM | None = None) -> Agent:
    return make_agent(
        ScriptedLLM([], context_length=WINDOW),
        store.sessions,
        engine=lambda: ContextCompressor(
            WINDOW, protect_last_n=2, summarize=lambda prompt, limit: "## Goal\nTo test."
        ),
        flush_memory=MemoryFlush(ModelSelector(flush, store.sessions), memory) if flush else None,
    )


async def compact(agent: Agent, store: SqliteStore, place: Conversation) -> bool:
    live = await agent.open(await store.sessions.conversation(place.id))
    return (await agent.auto_compaction.compactor.compact(live, "command")).compacted is not None


def remember(text: str) -> Step:
    arguments = json.dumps({"action": "add", "text": text})
    return Completion("", (ToolCall("c1", "memory", arguments),), "tool_calls")


async def test_lasting_facts_are_noted_before_turns_leave_the_context() -> None:
    """One bounded call with the memory tool alone, nothing of it in the conversation."""
    store = await temporary_store()
    place = await conversation(store)
    flush = ScriptedLLM([remember("Is called Ada.")])
    said = await store.sessions.transcript(place.id)
    assert await compact(agent_with(store, flush=flush), store, place)
    assert [fact.text for fact in await store.sessions.facts("owner")] == ["Is called Ada."]
    [request] = flush.requests
    assert [tool["function"]["name"] for tool in request.tools] == ["memory"]
    assert await store.sessions.transcript(place.id) == said


async def test_the_memory_is_not_flushed_twice_over_the_same_messages() -> None:
    """Nothing new was said: no call."""
    store = await temporary_store()
    place = await conversation(store)
    flush = ScriptedLLM([Completion("nothing")])
    agent = agent_with(store, flush=flush)
    assert await compact(agent, store, place)
    await compact(agent, store, place)
    assert len(flush.requests) == 1


async def test_a_failing_flush_does_not_stop_the_compaction() -> None:
    """Memory is a courtesy; the window is not."""
    store = await temporary_store()
    place = await conversation(store)
    assert await compact(agent_with(store, flush=ScriptedLLM([ModelOverloaded()])), store, place)


async def test_the_task_list_and_the_files_are_carried_over(tmp_path: Path) -> None:
    """They follow the summary, one line each, and an engine never sees the block."""
    store = await temporary_store()
    call = ToolCall("c1", "write_file", '{"path": "plan.md", "content": "x"}')
    place = await conversation(
        store, Message("assistant", tool_calls=(call,)), Message("tool", "ok", tool_call_id="c1")
    )
    session = place.live_session_id
    context = ToolContext(place.id, session, "owner", "web", tmp_path, store.sessions)
    await todo.call(context, {"action": "replace", "items": [{"text": "book the hall"}]})
    agent = agent_with(store)
    assert await compact(agent, store, place)
    live = await agent.open(await store.sessions.conversation(place.id))
    [summary] = [message for message in live.history if message.kind == "summary"]
    assert "[ ] 1. book the hall" in summary.content
    assert "- written: plan.md" in summary.content
    assert "book the hall" not in str(for_engine(live.system_prompt, live.history))


async def test_files_are_still_known_after_a_second_compaction() -> None:
    """The calls themselves are long gone by then."""
    store = await temporary_store()
    call = ToolCall("c1", "read_file", '{"path": "notes.md"}')
    place = await conversation(
        store, Message("assistant", tool_calls=(call,)), Message("tool", "ok", tool_call_id="c1")
    )
    agent = agent_with(store)
    assert await compact(agent, store, place)
    live = (await store.sessions.conversation(place.id)).live_session_id
    for _ in range(12):
        await store.sessions.append(
            live, [Message("user", "word " * 60), Message("assistant", "detail " * 60)]
        )
    assert await compact(agent, store, place)
    history = await store.sessions.history((await store.sessions.conversation(place.id)).live_session_id)
    assert "- read: notes.md" in "".join(message.content for message in history if message.kind == "summary")
