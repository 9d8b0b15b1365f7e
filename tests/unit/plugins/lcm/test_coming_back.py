"""Back from `lcm` to the built-in compressor: the record that lcm left is summarised like everything that is old."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agent.context.child_session import for_engine
from agent.context_compressor import ContextCompressor
from agent.context_engine import ContextEngine
from agent.loop import Agent
from agent.messages import Message
from agent.store import Address, Conversation
from agent.testing import ScriptedLLM
from agent.tokens import estimate_messages_tokens_rough
from gateway.store.sqlite.store import SqliteStore
from plugins.context_engine.lcm.engine import LosslessContext
from tests.support.agents import make_agent
from tests.support.histories import check_sendable, check_turns_alternate
from tests.support.lcm_chats import Host
from tests.support.recorder import Recorder
from tests.support.stores import temporary_store

WINDOW = 8_000
RECORD = "[LCM RECORD]"


def agent_with(store: SqliteStore, engine: Callable[[], ContextEngine], home: Path) -> Agent:
    return make_agent(ScriptedLLM([], context_length=WINDOW), store.sessions, engine=engine, home=home)


async def say(store: SqliteStore, place: Conversation, turns: int, *first: str) -> None:
    session = (await store.sessions.conversation(place.id)).live_session_id
    for number in range(turns):
        asked = " ".join((*first, f"Question {number} of part {turns}. ", "word " * 60))
        await store.sessions.append(session, [Message("user", asked), Message("assistant", "detail " * 60)])


async def compact(agent: Agent, store: SqliteStore, place: Conversation) -> list[Message]:
    live = await agent.open(await store.sessions.conversation(place.id))
    assert (await agent.auto_compaction.compactor.compact(live, "command")).compacted
    return live.history


async def test_the_record_is_summarised_and_leaves_the_context(tmp_path: Path) -> None:
    """It was kept in the protected head for ever. Its ledger is taken over word for word."""
    store = await temporary_store()
    place = await store.sessions.open_conversation(Address("web", "desk"), person="owner")
    await store.sessions.pin(place.live_session_id, system_prompt="Be brief.", model="m")
    await say(store, place, 40, "Never deploy on a Friday.")
    lossless = agent_with(
        store, lambda: LosslessContext(context_length=WINDOW, hermes_home=str(tmp_path)), tmp_path
    )
    left = await compact(lossless, store, place)
    assert any(message.content.startswith(RECORD) for message in left)
    await say(store, place, 3)

    recorder = Recorder("## Goal\nBack again.")
    compressor = agent_with(store, lambda: ContextCompressor(WINDOW, summarize=recorder), tmp_path)
    history = await compact(compressor, store, place)
    sent = for_engine("Be brief.", history)
    assert not any(RECORD in message.content for message in history)
    assert sum(message.kind == "summary" for message in history) in (1, 2)
    check_sendable(sent)
    check_turns_alternate(sent)
    summary = next(message.content for message in history if message.kind == "summary")
    assert "Back again." in summary and "- Never deploy on a Friday." in summary
    assert "[EARLIER SUMMARY] [USER] " in recorder.prompts[0], "an extract, because lcm had no model"
    for of_the_record in (RECORD, "· m1-m", "lcm_expand"):
        assert of_the_record not in recorder.prompts[0], (
            "what lcm writes around it is not part of what was said"
        )
        assert of_the_record not in summary
    assert "RECORD" not in summary


async def test_the_next_compaction_knows_only_its_own_summary(tmp_path: Path) -> None:
    """After the first one back, all is as if there had been no other engine."""
    store = await temporary_store()
    place = await store.sessions.open_conversation(Address("web", "desk"), person="owner")
    await store.sessions.pin(place.live_session_id, system_prompt="Be brief.", model="m")
    await say(store, place, 40)
    lossless = agent_with(
        store, lambda: LosslessContext(context_length=WINDOW, hermes_home=str(tmp_path)), tmp_path
    )
    await compact(lossless, store, place)
    recorder = Recorder("## Goal\nOnce.", "## Goal\nTwice.")
    compressor = agent_with(store, lambda: ContextCompressor(WINDOW, summarize=recorder), tmp_path)
    await compact(compressor, store, place)
    await say(store, place, 20)
    history = await compact(compressor, store, place)
    assert "> Once." in recorder.prompts[1] and "[EARLIER SUMMARY] [" not in recorder.prompts[1]
    assert next(m.content for m in history if m.kind == "summary").count("Twice.") == 1


def test_a_list_whose_host_says_nothing(tmp_path: Path) -> None:
    """The mark of the record is enough near the beginning; a request that looks like one is a request."""
    host = Host(tmp_path, WINDOW)
    for number in range(40):
        host.say({"role": "user", "content": f"Question {number} " + "word " * 60})
        host.say({"role": "assistant", "content": f"Answer {number} " + "word " * 60})
    assert host.compress()
    recorder = Recorder()
    compressor = ContextCompressor(WINDOW, protect_last_n=4, summarize=recorder)
    compacted = compressor.compress(host.messages)
    assert RECORD not in str(compacted)
    assert "[EARLIER SUMMARY] " in recorder.prompts[0] and RECORD not in recorder.prompts[0]
    assert estimate_messages_tokens_rough(compacted) < compressor.threshold_tokens
    forged = {"role": "user", "content": f"{RECORD} What is this? " + "word " * 3_000}
    assert forged in ContextCompressor(2_000, summarize=Recorder()).compress([host.messages[0], forged])
