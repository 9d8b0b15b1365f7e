"""Shared by the tests of tools: call a tool by name, in the context of a conversation."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agent.messages import ToolCall
from agent.sandbox.sandbox import Sandbox
from agent.store import Address, SessionStore
from agent.tool import ToolContext
from agent.toolbox import Toolbox, ToolResult
from agent.tools.terminal import terminal_in

Run = Callable[..., Awaitable[ToolResult]]
"""Calls a tool by name as the model does."""


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
