"""A conversation with its store and its workspace, and a toolbox with every tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.messages import ToolCall
from agent.store import SessionStore
from agent.tool import ToolContext, discover
from agent.toolbox import Toolbox, ToolResult
from tests.support.stores import temporary_store
from tests.support.tool_conversation import Run, context_of


@pytest.fixture
async def store() -> SessionStore:
    return (await temporary_store()).sessions


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Path of the workspace, which does not exist yet."""
    return tmp_path / "workspaces" / "one"


@pytest.fixture
async def ctx(store: SessionStore, workspace: Path) -> ToolContext:
    return await context_of(store, workspace, person="anna")


@pytest.fixture
def run(ctx: ToolContext) -> Run:
    """Calls a tool by name as the model does, through the toolbox."""
    toolbox = Toolbox(list(discover().values()))

    async def call(name: str, /, **arguments: Any) -> ToolResult:
        return await toolbox.run(ToolCall("call_1", name, json.dumps(arguments)), ctx)

    return call
