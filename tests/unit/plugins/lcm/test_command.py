"""`/lcm`: the state of the conversation in a chat, at any time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from agent.context_engine import ContextEngine
from agent.events import Notice, TextDelta, TurnDone
from agent.llm.selection import ModelSelector
from agent.testing import ScriptedLLM
from gateway.commands import Commands
from gateway.core.gateway import Gateway
from gateway.plugins.engines import engine_factory
from gateway.plugins.loader import Plugins
from gateway.store.sqlite.store import SqliteStore
from plugins.context_engine.lcm.database import FILE_NAME
from tests.support.agents import make_agent
from tests.support.command_harness import CommandHarness
from tests.support.configuration import current_config
from tests.support.lcm_tools_harness import LcmToolsHarness, opened, summary

WINDOW = 8_000


def no_compressor() -> ContextEngine:
    raise AssertionError("The engine was replaced by the built-in one.")


class LcmCommandHarness(CommandHarness):
    """At a gateway that was started with `context.engine: lcm`."""

    async def lcm(self, rest: str = "") -> str:
        await self.send(f"/lcm {rest}")
        event = (await self.until(Notice))[-1]
        assert isinstance(event, Notice)
        return event.text


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[LcmCommandHarness]:
    plugins, llm = Plugins(), ScriptedLLM(context_length=WINDOW)
    make = await asyncio.to_thread(
        engine_factory,
        "lcm",
        home=tmp_path,
        plugins=plugins,
        compressor=no_compressor,
        context_length=WINDOW,
        model=llm.model,
    )
    async with AsyncExitStack() as stack:
        store = await SqliteStore.open(tmp_path / "state.db")
        stack.push_async_callback(store.close)
        models = ModelSelector(llm, store.sessions)
        stack.push_async_callback(models.close)
        agent = make_agent(llm, store.sessions, engine=make, models=models, home=tmp_path)
        stack.push_async_callback(agent.close)
        commands = await asyncio.to_thread(Commands.discover, plugins.commands)
        gateway = Gateway(agent, store, commands, plugins, settings=current_config(), workspaces=tmp_path)
        stack.push_async_callback(gateway.close)
        yield LcmCommandHarness(gateway, store, llm, {})


async def test_before_anything_is_stored(harness: LcmCommandHarness, tmp_path: Path) -> None:
    """It says so, and makes no file for it."""
    assert "Nothing is stored yet" in await harness.lcm()
    assert "Nothing is stored yet" in await harness.lcm("doctor")
    assert not (tmp_path / FILE_NAME).exists()


async def test_the_state_of_a_conversation_while_a_turn_runs(harness: LcmCommandHarness) -> None:
    """It neither waits for the answer nor disturbs it."""
    await harness.talk("tea", "milk")
    gate = asyncio.Event()
    harness.llm.then(["Slowly", gate, "."])
    await harness.send("Speak.")
    await harness.until(TextDelta)
    told = await harness.lcm()
    assert "In the window: 500 of 8,000 tokens (6%)" in told
    assert "Messages: 5 stored; 5 in the context, 0 below summaries in it, 0 elsewhere" in told
    assert "Last compaction: none yet" in told
    gate.set()
    assert (await harness.until(TurnDone))[-1] == TurnDone("Slowly.")


async def test_the_state_while_the_engine_rests(harness: LcmCommandHarness, tmp_path: Path) -> None:
    """What an earlier run has stored; no engine was made since."""
    await harness.send("/status")
    await harness.until(Notice)
    conversation, session = harness.conversation_id, await harness.live()

    def earlier_run() -> None:
        with opened(tmp_path) as harness:
            _fill(harness, conversation, session)

    await asyncio.to_thread(earlier_run)
    told = await harness.lcm()
    assert "Messages: 4 stored; 1 in the context, 2 below summaries in it, 1 elsewhere" in told
    assert "Depth 0: 1 summary" in told
    assert "Coverage: 75% of the messages" in told
    assert "harbour" not in told
    assert "All is well: 10 checks" in await harness.lcm("doctor")
    assert "at rest" in await harness.say("/status")


async def test_the_doctor_in_a_chat(harness: LcmCommandHarness, tmp_path: Path) -> None:
    """What is wrong, without a word of what was said."""
    await harness.send("/status")
    await harness.until(Notice)
    conversation, session = harness.conversation_id, await harness.live()

    def damaged() -> None:
        with opened(tmp_path) as harness:
            _fill(harness, conversation, session)
            harness.sql("UPDATE messages SET seq = 9 WHERE seq = 4")

    await asyncio.to_thread(damaged)
    told = await harness.lcm("doctor")
    assert "message sequence" in told and "`hermes restore`" in told
    assert "harbour" not in told


async def test_what_else_may_stand_behind_it(harness: LcmCommandHarness, tmp_path: Path) -> None:
    """Nothing; and a file that cannot be read is a sentence."""
    assert "/lcm doctor" in await harness.lcm("everything")
    (tmp_path / FILE_NAME).write_bytes(b"no database " * 99)
    assert "cannot be read" in await harness.lcm()


def _fill(harness: LcmToolsHarness, conversation: str, session: str) -> None:
    said = harness.say(
        *({"role": "user", "content": f"The harbour, {n}."} for n in range(4)), conversation=conversation
    )
    node = harness.leaf(said[:2], summary("The harbour.", "harbours"), conversation)
    harness.show(node, said[2], session=session, conversation=conversation)
