"""The host's side of the contract beyond `compress()`: times, people, and models for an engine's tools."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from agent.auxiliary_client import call_llm
from agent.context.child_session import child_session_from, for_engine
from agent.llm import Completion, Usage
from agent.llm.guards import spending_for
from agent.messages import ChatDict, Message, ToolCall
from agent.store import Address, SessionStore, Split
from agent.testing import ScriptedLLM
from gateway.store.sqlite.store import SqliteStore
from tests.support.agent_harness import WINDOW, AgentHarness, ForeignEngine, fill, reply
from tests.support.agents import make_agent
from tests.support.stores import temporary_store

SENT = {"role", "content", "tool_calls", "tool_call_id", "name"}
"""Keys of a message that providers know."""


class Curious(ForeignEngine):
    """Keeps what it is told, and has a tool that asks a model."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Mapping[str, Any]] = []
        self.given: list[ChatDict] = []

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:  # type: ignore[override]
        self.told.append(kwargs)

    def compress(self, messages: list[ChatDict]) -> list[ChatDict]:  # type: ignore[override]
        self.given = messages
        return super().compress(messages)

    def handle_tool_call(self, name: str, args: Mapping[str, Any], **kwargs: Any) -> str:  # type: ignore[override]
        asked = call_llm(task="recall", messages=[{"role": "user", "content": args["word"]}])
        return asked.choices[0].message.content


async def open_agent_harness(
    tmp_path: Path, engine: Curious, store: SessionStore, auxiliary: ScriptedLLM
) -> AgentHarness:
    llm = ScriptedLLM([], context_length=WINDOW)
    agent = make_agent(llm, store, engine=lambda: engine, auxiliary=auxiliary)
    conversation = await store.open_conversation(Address("web", "desk"), person="owner")
    return AgentHarness(agent, llm, store, conversation.id, tmp_path)


async def test_an_engine_knows_when_something_was_said_and_no_provider_does(tmp_path: Path) -> None:
    """Messages to compress have `created_at` and `message_id`; requests to a provider have neither."""
    engine, store = Curious(), await temporary_store()
    harness = await open_agent_harness(tmp_path, engine, store.sessions, ScriptedLLM())
    await fill(harness, 3)
    harness.llm.then(Completion("", (ToolCall("c1", "no_such_tool", "{}"),), "tool_calls", Usage(2_100, 10)))
    harness.llm.then(reply("Done.", 100))
    await harness.say("Now compress.")
    said = {
        message.id: message.created_at for message in await store.sessions.transcript(harness.conversation_id)
    }
    system, *rest = engine.given
    assert set(system) == {"role", "content"}
    assert rest and all(said[message["message_id"]] == message["created_at"] for message in rest)
    assert {
        key for request in harness.llm.requests for message in request.messages for key in message
    } <= SENT


def test_a_dict_made_anew_without_the_time_is_the_same_message() -> None:
    """An engine may know `message_id` and not `created_at`: nothing is copied or split for that."""
    history = [Message("user", "One."), Message("assistant", "Two."), Message("user", "Three.")]
    given = for_engine("Be brief.", history)
    undated = [{key: value for key, value in each.items() if key != "created_at"} for each in given]
    assert child_session_from(given, undated, history) is None
    plan = child_session_from(given, [undated[0], *undated[2:]], history)
    assert plan is not None and plan.context == [message.id for message in history[1:]]


async def test_an_engine_knows_whose_conversation_it_is(tmp_path: Path) -> None:
    """At the beginning, and again in the child session."""
    engine = Curious()
    harness = await open_agent_harness(tmp_path, engine, (await temporary_store()).sessions, ScriptedLLM())
    await fill(harness, 3)
    await harness.agent.auto_compaction.compactor.compact(
        await harness.agent.open(await harness.store.conversation(harness.conversation_id)), "command"
    )
    assert [told["person"] for told in engine.told] == ["owner", "owner"]


async def test_an_engine_knows_which_session_was_split(tmp_path: Path) -> None:
    """By the name that we use and by the one that other hosts use; at a reset as well."""
    engine = Curious()
    harness = await open_agent_harness(tmp_path, engine, (await temporary_store()).sessions, ScriptedLLM())
    await fill(harness, 3)
    first = await harness.live()
    live = await harness.agent.open(await harness.store.conversation(harness.conversation_id))
    await harness.agent.auto_compaction.compactor.compact(live, "command")
    second = await harness.live()
    await harness.agent.auto_compaction.compactor.engines.reset(
        live, await harness.store.split(Split(second, "reset"))
    )
    told = [
        (each.get("boundary_reason"), each.get("parent_session_id"), each.get("old_session_id"))
        for each in engine.told
    ]
    assert told == [(None, None, None), ("compression", first, first), ("reset", second, second)]


async def test_a_tool_of_an_engine_may_ask_a_model_and_the_person_pays(tmp_path: Path) -> None:
    """The conversation's auxiliary model answers; the call is recorded for what it is."""
    store = await SqliteStore.open(tmp_path / "state.db")
    try:
        helper = ScriptedLLM([Completion("A purple flower.", usage=Usage(70, 7, cost_usd=0.25))])
        harness = await open_agent_harness(tmp_path, Curious(), store.sessions, helper)
        call = ToolCall("c1", "count_word", '{"word": "heliotrope"}')
        harness.llm.then(
            Completion("", (call,), "tool_calls", Usage(500, 10, cost_usd=0.0)), reply("So.", 600)
        )
        with spending_for("ann"):
            await harness.say("What is a heliotrope?")
        assert "A purple flower." in harness.llm.requests[-1].messages[-1]["content"]
        assert [request.purpose for request in helper.requests] == ["recall"]
        assert (await store.sessions.spent(spender="ann")).usd == 0.25
        assert (await store.sessions.session(await harness.live())).prompt_tokens == 600
    finally:
        await store.close()
    with closing(sqlite3.connect(tmp_path / "state.db")) as looked_at:
        rows = looked_at.execute("SELECT purpose, prompt_tokens FROM model_calls ORDER BY seq").fetchall()
    assert rows == [("turn", 500), ("engine_tool", 70), ("turn", 600)]
