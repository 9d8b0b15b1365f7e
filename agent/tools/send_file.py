"""Gives the person a file of the conversation's workspace."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import Field

from agent.events import FileSent
from agent.tool import ToolContext, tool
from agent.tool_support.workspace import Workspace

_ON_ITS_WAY = "is on its way to the person."


def was_sent(result: str) -> bool:
    """Return whether a stored result of this tool reports success."""
    return result.endswith(_ON_ITS_WAY)


@tool(effects=True)
async def send_file(
    ctx: ToolContext,
    path: Annotated[str, Field(description="Path relative to the workspace.")],
    caption: Annotated[str, Field(max_length=900, description="A line to go with it.")] = "",
) -> str:
    """Send the person a file from the workspace, such as a report you wrote with write_file."""
    workspace = Workspace(ctx.workspace)
    # Read whole, because that refuses links, pipes and everything outside; the platforms read it again.
    data = await asyncio.to_thread(workspace.read, path)
    await ctx.send_file(FileSent(str(workspace.root), path, path.rsplit("/", 1)[-1], caption))
    return f"`{path}` ({len(data):,} bytes) {_ON_ITS_WAY}"
