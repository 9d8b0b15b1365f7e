"""Conversations for dashboard tests: stored ones, and one that the real engine compacts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from agent.llm import Usage
from agent.messages import Message, ToolCall
from agent.store import Address, Compaction, Conversation, Split
from gateway.store.sqlite.store import SqliteStore
from gateway.types import OWNER
from tests.support.dashboard_harness import DashboardHarness

SUMMARY = "## Goal\nTo carry the **lighthouse** papers to the harbour master.\n\n## Done\n- Asked for the tide tables."
TALK = (
    "The keeper wants the lamp trimmed before the fog comes in, and the papers have to be at the harbour by Friday. "
    "Boats that come from the north see the light first behind the second buoy. "
)
"""About 45 tokens."""
RULE = "From now on write tides in metres. "
PAGES = "/dashboard/conversations"
API = "/api/dashboard/conversations"


@dataclass
class LongChat:
    """A conversation that is long enough to be compacted."""

    dashboard: DashboardHarness
    id: str

    @property
    def page(self) -> str:
        return f"{PAGES}/{self.id}"

    @property
    def api(self) -> str:
        return f"{API}/{self.id}"

    async def live(self) -> str:
        return (await self.dashboard.store.sessions.conversation(self.id)).live_session_id

    async def compress(self, topic: str = "", summary: str = SUMMARY) -> str:
        """Press the button Compress; return the sentence of the response."""
        self.dashboard.script.will(summary)
        return await self.dashboard.act(f"{self.api}/compress", {"topic": topic})

    async def restore(self, session_id: str) -> str:
        body = {"session": session_id, "instead_of": await self.live()}
        return await self.dashboard.act(f"{self.api}/restore", body)


async def opened(
    store: SqliteStore, chat_id: str = "desk", *, platform: str = "web", person: str = OWNER
) -> Conversation:
    return await store.sessions.open_conversation(Address(platform, chat_id), person=person)


async def said(store: SqliteStore, conversation: Conversation, *texts: str) -> list[Message]:
    """Add messages of the person and of Hermes in turn."""
    roles = ("user", "assistant")
    messages = [Message(roles[at % 2], text) for at, text in enumerate(texts)]  # type: ignore[arg-type]
    live = (await store.sessions.conversation(conversation.id)).live_session_id
    return await store.sessions.append(live, messages)


async def long_chat(dashboard: DashboardHarness, *, exchanges: int = 40, chat_id: str = "desk") -> LongChat:
    """Store a long conversation with a tool call and growing usage."""
    store = dashboard.store
    conversation = await opened(store, chat_id)
    live = conversation.live_session_id
    for number in range(exchanges):
        await said(
            store,
            conversation,
            f"Question {number} about the lighthouse. " + (RULE if number == 4 else "") + TALK * 5,
            f"**Answer {number}.** " + TALK * 8,
        )
        usage = Usage(2_000 + 1_500 * number, 40, cost_usd=0.002)
        await store.sessions.record_usage(live, usage, model="scripted/demo", spender=OWNER)
    await store.sessions.append(live, tool_call())
    return LongChat(dashboard, conversation.id)


def tool_call(result: str = "wing: a word of 4 letters", *, word: str = "wing") -> Sequence[Message]:
    return [
        Message("user", "How long is wing?"),
        Message(
            "assistant", "Let me see.", tool_calls=(ToolCall("c1", "look_up", json.dumps({"word": word})),)
        ),
        Message("tool", result, tool_call_id="c1", name="look_up"),
        Message("assistant", "Four letters."),
    ]


async def compacted_often(store: SqliteStore, times: int, *, chat_id: str = "long") -> Conversation:
    """Store a conversation with many compactions."""
    conversation = await opened(store, chat_id)
    live = conversation.live_session_id
    [first] = await store.sessions.append(live, [Message("user", "The beginning of a long story")])
    for number in range(times):
        done = Compaction("loop", "compressor", 20, 8, 60_000, 20_000, seconds=1.5, cost_usd=0.001)
        summary = Message("user", f"Summary {number}", kind="summary")
        live = (
            await store.sessions.split(
                Split(live, "compression", [summary, first.id], "Prompt.", compaction=done)
            )
        ).id
        await store.sessions.record_usage(live, Usage(20_000 + number, 10), model="scripted/demo")
    return await store.sessions.conversation(conversation.id)
