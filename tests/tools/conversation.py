"""What the tests of tools share: a call by name, and the context of a person's conversation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agent.messages import ToolCall
from agent.sandbox.sandbox import Sandbox
from agent.store import Address, Fact, SessionStore
from agent.tool import ToolContext
from agent.toolbox import Toolbox, ToolResult
from agent.tools.terminal import terminal_in
from gateway.store.memory import MemoryStore

Run = Callable[..., Awaitable[ToolResult]]
"""Calls a tool by name as the model does."""


class UnhurriedStore(MemoryStore):
    """Lets everybody else go first after each read, as a store on a busy machine may."""

    async def facts(self, person: str) -> list[Fact]:
        facts = await super().facts(person)
        await asyncio.sleep(0)
        return facts

    async def load_state(self, conversation_id: str, key: str) -> str | None:
        state = await super().load_state(conversation_id, key)
        await asyncio.sleep(0)
        return state


async def context_of(store: SessionStore, workspace: Path, *, person: str) -> ToolContext:
    conversation = await store.open_conversation(Address("web", f"chat of {person}"), person=person)
    return ToolContext(
        conversation_id=conversation.id,
        session_id=conversation.live_session_id,
        person=person,
        platform="web",
        workspace=workspace,
        store=store,
    )


def terminal_of(ctx: ToolContext, sandbox: Sandbox | None) -> Run:
    """Runs a command as the model does."""
    toolbox = Toolbox([terminal_in(sandbox)])

    async def run(command: str, **arguments: Any) -> ToolResult:
        call = ToolCall("call_1", "terminal", json.dumps({"command": command, **arguments}))
        return await toolbox.run(call, ctx)

    return run
