"""Finds files of the conversation's workspace by name and by content."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated

from pydantic import Field

from agent.tool import ToolContext, tool
from agent.tool_support.file_search import Found, Hit, Query, search_folder
from agent.tool_support.workspace import Workspace


@tool(outside=True)
async def search_files(
    ctx: ToolContext,
    pattern: Annotated[
        str, Field(max_length=500, description="Regular expression (Python) that a line must match.")
    ] = "",
    glob: Annotated[
        str, Field(max_length=200, description="Which files: `*.md` for names, `notes/*.md` for paths.")
    ] = "",
    path: Annotated[str, Field(description="The folder to look in.")] = ".",
    ignore_case: Annotated[
        bool, Field(description="Whether the pattern ignores upper and lower case.")
    ] = False,
    limit: Annotated[int, Field(ge=1, le=200, description="How many results to show at most.")] = 50,
) -> str:
    """Search the workspace for lines that match a pattern, for files by name, or both.
    With neither, lists all files."""
    folder = await asyncio.to_thread(Workspace(ctx.workspace).open_folder, path)
    try:
        found = await search_folder(folder, Query(pattern, glob, ignore_case, limit))
    finally:
        os.close(folder)
    prefix = "".join(f"{name}/" for name in path.split("/") if name not in ("", "."))
    return "\n".join([*(prefix + _as_line(hit) for hit in found.hits), *_notes(found)])


def _as_line(hit: Hit) -> str:
    return hit.path if hit.line is None else f"{hit.path}:{hit.line}: {hit.text}"


def _notes(found: Found) -> list[str]:
    notes = []
    if not found.in_time:
        notes.append("[the search took too long and was stopped; use a simpler pattern or a glob]")
    elif not found.hits:
        notes.append("Nothing was found.")
    if found.more:
        notes.append("[there is more; narrow the search or raise the limit]")
    if found.too_large:
        notes.append(f"[{found.too_large} files were too large to be searched]")
    return notes
