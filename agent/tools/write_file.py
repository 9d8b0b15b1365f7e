"""Writes text into the conversation's workspace."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from pydantic import Field

from agent.errors import ToolError
from agent.redaction import REDACTED
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
    await asyncio.to_thread(_write, Workspace(ctx.workspace), path, content, append=mode == "append")
    done = "Added" if mode == "append" else "Wrote"
    return f"{done} {len(content):,} characters in {len(content.splitlines()):,} lines to `{path}`."


def _write(workspace: Workspace, path: str, content: str, *, append: bool) -> None:
    if not append and REDACTED in content:
        _refuse_to_lose_secrets(workspace, path, content)
    workspace.write(path, content.encode(), append=append)


def _refuse_to_lose_secrets(workspace: Workspace, path: str, content: str) -> None:
    """Refuse to write redacted placeholders over the secrets of a file."""
    try:
        before = workspace.read(path)
    except ToolError:
        return  # There is nothing to lose, or writing will say what is wrong.
    if content.count(REDACTED) > before.count(REDACTED.encode()):
        raise ToolError(
            f"`{path}` was not changed: the text holds `{REDACTED}` where the file holds a value that you were not "
            f"shown, and writing it would lose that value. Change only the lines you mean by a command in the "
            f"terminal, add to the end with mode `append`, write to another path, or ask the person to change it."
        )
