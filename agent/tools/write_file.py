"""Writes text into the conversation's workspace."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from pydantic import Field

from agent.tool import ToolContext, tool
from agent.tool_support.workspace import Workspace


@tool(effects=True)
async def write_file(
    ctx: ToolContext,
    path: Annotated[str, Field(description="Path relative to the workspace. Missing folders are made.")],
    content: Annotated[str, Field(description="The text to write.")],
    mode: Annotated[
        Literal["overwrite", "append"], Field(description="Replace the whole file, or add to its end.")
    ] = "overwrite",
) -> str:
    """Write a text file in the workspace. It is replaced or extended as a whole, never left half written."""
    await asyncio.to_thread(Workspace(ctx.workspace).write, path, content.encode(), append=mode == "append")
    done = "Added" if mode == "append" else "Wrote"
    return f"{done} {len(content):,} characters in {len(content.splitlines()):,} lines to `{path}`."
