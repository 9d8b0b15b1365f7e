"""A gateway inside the test, with a model that the test leads, for `hermes chat` to talk to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from agent.llm import ChatRequest
from agent.messages import ToolCall
from agent.store import Conversation
from agent.testing import ScriptedLLM, Step
from agent.tool import ToolContext, tool
from agent.tools.send_file import send_file
from gateway.core.gateway import Gateway
from gateway.core.turns import Busy
from gateway.store.sqlite.store import SqliteStore
from gateway.types import InboundMessage
from tests.support.agents import make_agent
from tests.support.gateways import make_gateway, serving
from tests.support.hermes_process import environment
from tests.support.sandboxed import TERMINAL
from tests.support.terminal import Terminal
from tests.support.warm import HERMES, Process, spawn

LOOK_UP = ToolCall("call_1", "look_up", '{"word": "tea"}')


@tool()
async def look_up(ctx: ToolContext, word: str) -> str:
    """Looks a word up."""
    return f"{word}: a drink"


class NotingGateway(Gateway):
    """Tells the test what has arrived."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._arrived: asyncio.Queue[str] = asyncio.Queue()

    async def receive(self, inbound: InboundMessage) -> Conversation:
        conversation = await super().receive(inbound)
        self._arrived.put_nowait(inbound.text)
        return conversation

    async def arrival_of(self, text: str) -> None:
        while await self._arrived.get() != text:
            pass


class CliHarness:
    """The gateway. Its model repeats what it is told, unless the test says otherwise."""

    def __init__(self, folder: Path, store: SqliteStore, *, busy: Busy = "steer") -> None:
        self._steps: list[Step] = []
        self.llm = ScriptedLLM([self._next_step] * 100)
        self.store = store
        agent = make_agent(self.llm, self.store.sessions, [look_up, send_file, TERMINAL])
        self.gateway = make_gateway(
            agent,
            self.store,
            folder / "workspaces",
            gateway_class=NotingGateway,
            config={"gateway": {"busy": busy}},
        )

    def will(self, *steps: Step) -> None:
        """The model's next answers."""
        self._steps += steps

    def told(self, request: int = -1) -> list[str]:
        """Return the user messages that the model received."""
        messages = self.llm.requests[request].messages
        return [message["content"] for message in messages if message["role"] == "user"]

    def _next_step(self, request: ChatRequest) -> Step:
        if self._steps:
            return self._steps.pop(0)
        return f"You said: {self.told()[-1]}"


@dataclass(frozen=True)
class Ended:
    code: int
    stdout: str
    stderr: str


class Shell:
    """`hermes chat` as a process, on a state directory and a configuration."""

    def __init__(self, home: Path, config: dict[str, Any]) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.configure(config)

    def configure(self, config: dict[str, Any]) -> None:
        (self.home / "hermes.yaml").write_text(yaml.safe_dump(config))

    async def start(self, *arguments: str) -> Process:
        pipe = asyncio.subprocess.PIPE
        return await spawn(
            *self._command(arguments), stdin=pipe, stdout=pipe, stderr=pipe, env=environment(self.home)
        )

    async def chat(self, *arguments: str, stdin: bytes = b"") -> Ended:
        process = await self.start(*arguments)
        stdout, stderr = await asyncio.wait_for(process.communicate(stdin), 60)
        return Ended(process.returncode or 0, stdout.decode(), stderr.decode())

    def terminal(self, *arguments: str) -> AbstractAsyncContextManager[Terminal]:
        return Terminal.run(*self._command(arguments), env=environment(self.home))

    def _command(self, arguments: Sequence[str]) -> list[str]:
        return [*HERMES, "--config", str(self.home / "hermes.yaml"), "chat", *arguments]


@asynccontextmanager
async def inhabited(home: Path, *, busy: Busy = "queue") -> AsyncIterator[tuple[CliHarness, Shell]]:
    """The gateway of this state directory, running in the test, and a shell that finds it there."""
    store = await SqliteStore.open(home / "state.db")
    harness = CliHarness(home, store, busy=busy)
    async with serving(harness.gateway) as door:
        yield harness, Shell(home, {"platforms": {"web": {"port": int(door.where.rpartition(":")[2])}}})
    await harness.gateway.close()
    await store.close()
