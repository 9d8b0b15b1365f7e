"""Harness: sends messages and commands to a real gateway and returns its answers as text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent.context_compressor import ContextCompressor
from agent.context_engine import ContextEngine
from agent.errors import ModelNotAvailable
from agent.events import Notice, TurnDone, TurnEvent, TurnFailed
from agent.llm import Completion, LLMClient, Usage
from agent.llm.selection import Build, ModelSelector
from agent.messages import Message
from agent.store import Address, Conversation
from agent.testing import ScriptedLLM
from agent.tools.todo import todo
from gateway.config.schema import SessionsConfig
from gateway.core.gateway import Gateway
from gateway.store.sqlite.store import SqliteStore
from gateway.types import OWNER, InboundMessage, parse_command
from tests.support.agents import make_agent
from tests.support.gateways import COMMANDS, make_gateway

WINDOW = 8_000
PATIENCE = 60


@dataclass(frozen=True)
class Person:
    """A person and the address they write from."""

    address: Address = field(default=Address("web", "desk"))
    person: str = OWNER
    author: str = ""
    is_admin: bool = False
    group: str = ""


@dataclass
class CommandHarness:
    gateway: Gateway
    store: SqliteStore
    llm: ScriptedLLM
    others: dict[str, ScriptedLLM]
    """The models that can be switched to, by name."""
    who: Person = field(default_factory=Person)
    conversation_id: str = ""
    _after: int = 0

    async def say(self, text: str, who: Person | None = None) -> str:
        """Send a text; return the notices and the answer, one per line."""
        await self.send(text, who)
        ends = (Notice,) if COMMANDS.overtakes(parse_command(text)) else (TurnDone, TurnFailed)
        return "\n".join(filter(None, map(_text, await self.until(*ends))))

    async def send(self, text: str, who: Person | None = None) -> None:
        who = who or self.who
        conversation = await self.store.sessions.open_conversation(who.address, person=who.person)
        if conversation.id != self.conversation_id:
            self.conversation_id, self._after = conversation.id, self.gateway.hub.last_number(conversation.id)
        await self.gateway.receive(
            InboundMessage(
                who.address, who.person, text, author=who.author, is_admin=who.is_admin, group=who.group
            )
        )

    async def until(self, *kinds: type[TurnEvent]) -> list[TurnEvent]:
        """Return the events since the last call, up to the first of these kinds."""
        events: list[TurnEvent] = []
        with self.gateway.hub.watch(self.conversation_id, after=self._after) as watcher:
            while not events or not isinstance(events[-1], kinds):
                envelope = await asyncio.wait_for(anext(watcher), PATIENCE)
                if envelope.number > self._after:  # the hub begins with the whole turn
                    self._after = envelope.number
                    events.append(envelope.event)
        return events

    async def talk(self, *subjects: str) -> None:
        """Run one turn of about 120 tokens per subject."""
        for subject in subjects:
            self.llm.then(Completion(f"About {subject}. " + "detail " * 60, usage=Usage(500, 10)))
            await self.say(f"Tell me of {subject}. " + "word " * 60)

    async def conversation(self) -> Conversation:
        return await self.store.sessions.conversation(self.conversation_id)

    async def live(self) -> str:
        return (await self.conversation()).live_session_id

    async def history(self) -> list[Message]:
        return await self.store.sessions.history(await self.live())

    async def subjects(self) -> list[str]:
        """Return the subjects of the questions that are in the context."""
        asked = [message.content for message in await self.history() if message.role == "user"]
        return [text.split()[3].rstrip(".") for text in asked if text.startswith("Tell me of")]


@asynccontextmanager
async def opened(
    folder: Path, *others: ScriptedLLM, sessions: SessionsConfig | None = None
) -> AsyncIterator[CommandHarness]:
    """Open a gateway on the store of this folder."""
    llm, by_name = ScriptedLLM(context_length=WINDOW), {each.model: each for each in others}

    def build(name: str) -> LLMClient:
        if name in by_name:
            return by_name[name]
        raise ModelNotAvailable("Nobody is known to serve it.")

    def engine() -> ContextEngine:
        return ContextCompressor(
            WINDOW, protect_last_n=2, summarize=lambda prompt, limit: "## Goal\nTo test."
        )

    async with furnished(folder, llm, build, [llm.model, *by_name], engine, sessions) as harness:
        yield CommandHarness(harness.gateway, harness.store, llm, by_name)


@asynccontextmanager
async def furnished(
    folder: Path,
    llm: LLMClient,
    build: Build,
    choices: Sequence[str] = (),
    engine: Callable[[], ContextEngine] | None = None,
    sessions: SessionsConfig | None = None,
    auxiliary: LLMClient | None = None,
) -> AsyncIterator[CommandHarness]:
    """Open a gateway with these models."""
    async with AsyncExitStack() as stack:
        store = await SqliteStore.open(folder / "state.db")
        stack.push_async_callback(store.close)
        models = ModelSelector(llm, store.sessions, choices=choices, build=build)
        stack.push_async_callback(models.close)
        agent = make_agent(llm, store.sessions, [todo], engine=engine, models=models, auxiliary=auxiliary)
        stack.push_async_callback(agent.close)
        gateway = make_gateway(agent, store, folder, config={"sessions": sessions or SessionsConfig()})
        stack.push_async_callback(gateway.close)
        yield CommandHarness(gateway, store, ScriptedLLM(), {})


def _text(event: TurnEvent) -> str:
    match event:
        case Notice(text) | TurnDone(text) | TurnFailed(text):
            return text
    return ""
