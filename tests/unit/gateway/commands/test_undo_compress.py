"""`/undo-compress` restores the context before the last compaction and keeps newer messages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.context.branches import restore, undo_compaction
from agent.context_compressor import ContextCompressor
from agent.errors import StoreError
from agent.events import Notice, TurnDone, TurnFailed
from agent.llm import Completion, Usage
from agent.messages import ChatDict, Message, ToolCall, is_paired
from agent.store import Address, Session, SessionStore, Split
from agent.testing import ScriptedLLM
from gateway.core.gateway import Gateway
from gateway.types import OWNER, InboundMessage
from tests.support.agents import make_agent
from tests.support.gateways import make_gateway
from tests.support.stores import temporary_store

WINDOW = 8_000
NOTHING = "There is nothing to undo: no compaction keeps anything out of this context."


class NotingCompressor(ContextCompressor):
    """The built-in engine, recording its calls."""

    def __init__(self, told: list[tuple[str, str]]) -> None:
        super().__init__(WINDOW, protect_last_n=2, summarize=lambda prompt, tokens: "## Goal\nTo test.")
        self.told = told

    def on_session_start(self, session_id: str, **kwargs: object) -> None:
        self.told.append(("start", session_id))

    def on_session_end(self, session_id: str, messages: list[ChatDict]) -> None:
        self.told.append(("end", session_id))


@dataclass
class GatewayHarness:
    gateway: Gateway
    llm: ScriptedLLM
    store: SessionStore
    told: list[tuple[str, str]]
    """What the engines of the conversation heard."""
    conversation_id: str = ""
    after: int = 0

    async def say(self, text: str) -> str:
        """Send a message or a command and return the answer."""
        inbound = InboundMessage(Address("web", "room"), OWNER, text)
        self.conversation_id = (await self.gateway.receive(inbound)).id
        answer = ""
        with self.gateway.hub.watch(self.conversation_id, after=self.after) as watcher:
            async for envelope in watcher:
                self.after = envelope.number
                if isinstance(envelope.event, Notice):
                    answer = envelope.event.text
                if isinstance(envelope.event, TurnFailed):
                    return envelope.event.error
                if isinstance(envelope.event, TurnDone):
                    return answer or envelope.event.text
        raise AssertionError("the stream ended")

    async def talk(self, turns: int, word: str = "word") -> None:
        """Run turns of about 120 tokens each."""
        for number in range(turns):
            self.llm.then(Completion(f"Answer {number}. " + f"{word} " * 60, usage=Usage(500, 10)))
            await self.say(f"Question {number}. " + f"{word} " * 60)

    async def live(self) -> Session:
        conversation = await self.store.conversation(self.conversation_id)
        return await self.store.session(conversation.live_session_id)

    async def context(self) -> list[str]:
        return [message.id for message in await self.store.history((await self.live()).id)]

    async def said(self) -> list[str]:
        return [message.id for message in await self.store.transcript(self.conversation_id)]


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    store = await temporary_store()
    llm, told = ScriptedLLM(context_length=WINDOW), list[tuple[str, str]]()
    agent = make_agent(llm, store.sessions, engine=lambda: NotingCompressor(told))
    gateway = make_gateway(agent, store, tmp_path)
    yield GatewayHarness(gateway, llm, store.sessions, told)
    await gateway.close()


async def test_the_parent_is_live_again(harness: GatewayHarness) -> None:
    """No message came since, so the pointer moves back."""
    await harness.talk(12)
    parent, before = await harness.live(), await harness.context()
    compressed = await harness.say("/compress")
    child, small = await harness.live(), await harness.context()
    assert child.parent_id == parent.id
    undone = await harness.say("/undo-compress")
    assert await harness.live() == parent
    assert await harness.context() == before
    forth = re.search(r"(\d+) -> (\d+) messages", compressed)
    back = re.fullmatch(r"Undone: (\d+) -> (\d+) messages, ~([\d,]+) -> ~([\d,]+) tokens\.", undone)
    assert forth and back, (compressed, undone)
    assert (back[1], back[2]) == (forth[2], forth[1]) == (str(len(small)), str(len(before)))
    assert int(back[3].replace(",", "")) < int(back[4].replace(",", ""))
    assert len(await harness.store.sessions(harness.conversation_id)) == 2, "the child is still there"


async def test_what_was_said_since_comes_along(harness: GatewayHarness) -> None:
    """A branch holds the whole history and the new messages, by reference."""
    await harness.talk(12)
    parent = await harness.live()
    await harness.say("/compress")
    child = await harness.live()
    await harness.talk(2, "later")
    everything = await harness.said()
    answer = await harness.say("/undo-compress")
    branch = await harness.live()
    assert (branch.parent_id, branch.reason) == (child.id, "branch")
    assert branch.system_prompt == parent.system_prompt, "without the note of the compaction"
    assert await harness.context() == everything == await harness.said()
    assert answer.startswith("Undone: ")
    hits = await harness.store.search("Question 3", conversation_id=harness.conversation_id, limit=100)
    assert len({hit.message.id for hit in hits}) == len(hits)


async def test_the_model_sees_the_past_again(harness: GatewayHarness) -> None:
    """The next request has the first messages, no summary, and the same beginning as before the compaction."""
    await harness.talk(12)
    before = harness.llm.requests[-1].messages
    await harness.say("/compress")
    await harness.talk(1)
    assert "To test." in str(harness.llm.requests[-1].messages)
    await harness.say("/undo-compress")
    await harness.talk(1)
    now = harness.llm.requests[-1].messages
    assert now[: len(before)] == before
    assert "To test." not in str(now)


async def test_undoing_twice_goes_back_twice(harness: GatewayHarness) -> None:
    await harness.talk(10, "one")
    await harness.say("/compress")
    await harness.talk(10, "two")
    await harness.say("/compress")
    await harness.talk(1, "three")
    sizes = [len(await harness.context())]
    for _ in range(2):
        assert (await harness.say("/undo-compress")).startswith("Undone: ")
        sizes.append(len(await harness.context()))
    assert sizes == sorted(set(sizes)), "each time there was more"
    assert await harness.context() == await harness.said()
    assert await harness.say("/undo-compress") == NOTHING


async def test_compressing_again_after_an_undo(harness: GatewayHarness) -> None:
    """The second child is a sibling of the first, and can be undone, too."""
    await harness.talk(12)
    parent = await harness.live()
    await harness.say("/compress")
    first = await harness.live()
    await harness.say("/undo-compress")
    await harness.talk(1)
    assert (await harness.say("/compress")).startswith("Compressed: ")
    second = await harness.live()
    assert (second.parent_id, second.id != first.id) == (parent.id, True)
    await harness.say("/undo-compress")
    assert await harness.live() == await harness.store.session(parent.id)


async def test_there_must_be_something_to_undo(harness: GatewayHarness) -> None:
    assert await harness.say("/undo-compress") == NOTHING
    await harness.talk(12)
    assert await harness.say("/undo-compress") == NOTHING
    await harness.say("/compress")
    await harness.say("/reset")
    reset = await harness.live()
    assert await harness.say("/undo-compress") == NOTHING
    await harness.talk(1)
    assert await harness.say("/undo-compress") == NOTHING
    assert (await harness.live()).id == reset.id


async def test_the_engine_is_told(harness: GatewayHarness) -> None:
    """The old engine ends, and another starts with the restored session."""
    await harness.talk(12)
    parent = await harness.live()
    await harness.say("/compress")
    child = await harness.live()
    await harness.say("/undo-compress")
    assert harness.told == [
        ("start", parent.id),
        ("start", child.id),
        ("end", child.id),
        ("start", parent.id),
    ]
    live = await harness.gateway.agent.open(await harness.store.conversation(harness.conversation_id))
    runner = await harness.gateway.agent.auto_compaction.compactor.engines.get(live)
    assert isinstance(runner.engine, NotingCompressor)
    assert runner.engine._previous_summary is None, "the summary that was undone must not be built upon"
    assert runner.engine.last_prompt_tokens == parent.prompt_tokens


async def test_a_context_over_the_threshold_says_so(harness: GatewayHarness) -> None:
    """The answer says that the conversation will be compacted again."""
    await harness.talk(40)
    await harness.say("/compress")
    answer = await harness.say("/undo-compress")
    assert re.fullmatch(r"Undone: .* tokens; compressor compacts again from 4,000 on\.", answer), answer


async def _split(store: SessionStore, session_id: str, kept: Sequence[Message]) -> Session:
    summary = Message("user", "A summary.", kind="summary")
    return await store.split(Split(session_id, "hygiene", [summary, *(message.id for message in kept)]))


async def test_a_call_left_open_gets_a_stub_at_the_seam(harness: GatewayHarness) -> None:
    """A turn was stopped before its tool answered, then compacted; the restored history is valid."""
    conversation = await harness.store.open_conversation(Address("web", "seam"), person=OWNER)
    first = conversation.live_session_id
    call = ToolCall("call_1", "look_up", "{}")
    said = [Message("user", "Look it up."), Message("assistant", "", tool_calls=(call,))]
    await harness.store.append(first, said)
    child = await _split(harness.store, first, [])
    await harness.store.append(child.id, [Message("user", "Never mind."), Message("assistant", "Fine.")])
    rewound = await undo_compaction(harness.store, await harness.store.conversation(conversation.id))
    assert rewound
    chat = [
        {"role": m.role, "tool_call_id": m.tool_call_id, "tool_calls": [{"id": c.id} for c in m.tool_calls]}
        for m in rewound.live.history
    ]
    assert [message["role"] for message in chat] == ["user", "assistant", "tool", "user", "assistant"]
    assert is_paired(chat)


async def test_an_engine_that_only_drops_messages_can_be_undone(harness: GatewayHarness) -> None:
    """There is no summary, so only the lineage shows what was compacted."""
    conversation = await harness.store.open_conversation(Address("web", "window"), person=OWNER)
    live = conversation.live_session_id
    for number in range(3):
        await harness.store.append(live, [Message("user", f"{number}a"), Message("assistant", f"{number}b")])
        last = (await harness.store.history(live))[-1]
        live = (await harness.store.split(Split(live, "compression", [last.id]))).id
    await harness.store.append(live, [Message("user", "now")])
    sizes = []
    while rewound := await undo_compaction(harness.store, await harness.store.conversation(conversation.id)):
        sizes.append(len(rewound.live.history))
    assert sizes == [4, 6, 7], "what it kept and what was said there, with all that was said since"


async def test_an_ancestor_before_a_reset_can_be_restored(harness: GatewayHarness) -> None:
    """Its messages come before those since the reset."""
    await harness.talk(2)
    first = await harness.live()
    await harness.say("/reset")
    await harness.talk(1, "later")
    conversation = await harness.store.conversation(harness.conversation_id)
    rewound = await restore(harness.store, conversation, first.id)
    assert rewound.live.session.reason == "branch"
    assert [message.id for message in rewound.live.history] == await harness.said()


async def test_restoring_never_takes_anything_out_of_the_context(harness: GatewayHarness) -> None:
    """A smaller ancestor and a session that is not an ancestor are refused."""
    await harness.talk(12)
    await harness.say("/compress")
    small = await harness.live()
    await harness.talk(1)
    await harness.say("/undo-compress")
    live = await harness.live()
    conversation = await harness.store.conversation(harness.conversation_id)
    with pytest.raises(StoreError, match=r"messages of the live context are not in"):
        await restore(harness.store, conversation, small.id)
    for no_ancestor in (live.id, "ses_unknown"):
        with pytest.raises(StoreError, match="is not an ancestor of the live session"):
            await restore(harness.store, conversation, no_ancestor)
    assert await harness.live() == live


async def test_an_undo_waits_for_the_turn_before_it(harness: GatewayHarness) -> None:
    await harness.talk(12)
    await harness.say("/compress")
    gate = asyncio.Event()
    harness.llm.then(["Speaking", gate, "."])
    with harness.gateway.hub.watch(harness.conversation_id, after=harness.after) as watcher:
        for text in ("Speak.", "/undo-compress"):
            await harness.gateway.receive(InboundMessage(Address("web", "room"), OWNER, text))
        gate.set()
        ended = 0
        while ended < 2:
            ended += isinstance((await asyncio.wait_for(anext(watcher), 5)).event, TurnDone)
    history = await harness.store.history((await harness.live()).id)
    assert history[-1].content == "Speaking."
    assert len(history) == 26
