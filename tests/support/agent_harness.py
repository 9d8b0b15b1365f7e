"""Harness: an agent with a scripted model, a small window and a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.context.compaction_pace import SummaryTimeout
from agent.context_compressor import ContextCompressor
from agent.context_engine import ContextEngine
from agent.events import TurnEvent
from agent.llm import Completion, Usage
from agent.loop import Agent, Turn
from agent.messages import ChatDict, Message
from agent.store import Address, SessionStore
from agent.testing import ScriptedLLM, Step
from agent.tool import ToolContext, tool
from gateway.core.session_policy import compact_if_oversized
from tests.support.agents import make_agent
from tests.support.stores import temporary_store

WINDOW = 4_000


@dataclass
class AgentHarness:
    agent: Agent
    llm: ScriptedLLM
    store: SessionStore
    conversation_id: str
    workspace: Path

    async def say(self, text: str) -> list[TurnEvent]:
        conversation = await self.store.conversation(self.conversation_id)
        turn = Turn(conversation, Message("user", text), self.workspace)
        return [event async for event in self.agent.run(turn)]

    async def hygiene(self) -> list[TurnEvent]:
        live = await self.agent.open(await self.store.conversation(self.conversation_id))
        return await compact_if_oversized(self.agent, live)

    async def live(self) -> str:
        return (await self.store.conversation(self.conversation_id)).live_session_id

    async def history(self) -> list[Message]:
        return await self.store.history(await self.live())


@tool()
async def nothing(ctx: ToolContext) -> str:
    """Does nothing."""
    return "nothing"


def reply(text: str, tokens: int) -> Completion:
    return Completion(text, usage=Usage(tokens, 10))


async def open_agent(
    tmp_path: Path,
    steps: Sequence[Step],
    *,
    summaries: Sequence[Step] = (),
    engine: Callable[[], ContextEngine] | None = None,
    background_at: float = 1.0,
    summary_timeout: SummaryTimeout | None = None,
) -> AgentHarness:
    store = await temporary_store()
    llm = ScriptedLLM(steps, context_length=WINDOW)
    small = engine or (lambda: ContextCompressor(WINDOW, protect_last_n=2))
    auxiliary = ScriptedLLM(summaries, context_length=WINDOW)
    agent = make_agent(
        llm,
        store.sessions,
        [nothing],
        engine=small,
        auxiliary=auxiliary,
        background_at=background_at,
        summary_timeout=summary_timeout,
    )
    conversation = await store.sessions.open_conversation(Address("web", "desk"), person="owner")
    return AgentHarness(agent, llm, store.sessions, conversation.id, tmp_path)


async def fill(harness: AgentHarness, turns: int, tokens: int = 500) -> None:
    """Turns of about 120 tokens each."""
    for number in range(turns):
        harness.llm.then(reply(f"Answer {number}. " + "detail " * 60, tokens))
        await harness.say(f"Question {number}. " + "word " * 60)


class ForeignEngine(ContextEngine):
    """An engine by another author: fewer optional arguments than ours, and a tool."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    @property
    def name(self) -> str:
        return "stranger"

    def update_from_response(self, usage: dict[str, int]) -> None:
        self.last_prompt_tokens = usage["prompt_tokens"]

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return (prompt_tokens or 0) > 2_000

    def compress(self, messages: list[ChatDict]) -> list[ChatDict]:  # type: ignore[override]
        return [messages[0], *messages[-3:]]

    def on_session_start(
        self, session_id: str, parent_session_id: str = "", boundary_reason: str = ""
    ) -> None:  # type: ignore[override]
        self.heard.append(("start", session_id, parent_session_id, boundary_reason))

    def get_tool_schemas(self) -> list[ChatDict]:
        parameters = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
        return [{"name": "count_word", "description": "Counts a word.", "parameters": parameters}]

    def handle_tool_call(self, name: str, args: dict[str, str], **kwargs: list[ChatDict]) -> str:  # type: ignore[override]
        return str(sum(args["word"] in str(message.get("content")) for message in kwargs["messages"]))
