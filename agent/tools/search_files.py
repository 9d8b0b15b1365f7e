"""Searches the conversation's workspace, in a process that can be stopped at any time (`search_worker`)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from agent.errors import ToolError
from agent.sandbox.process import run_process
from agent.tool import ToolContext, tool
from agent.tool_support import search_worker
from agent.tool_support.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Found:
    hits: list[str]
    """`path`, or `path:number: line` for a matching line."""
    in_time: bool
    """False if the search was stopped; the hits until then are here."""
    more: bool = False
    """Whether the limit left something out."""
    too_large: int = 0
    """Files that were not searched for their size."""


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
        query = {"pattern": pattern, "glob": glob, "ignore_case": ignore_case, "limit": limit}
        found = await search_folder(folder, query)
    finally:
        os.close(folder)
    prefix = "".join(f"{name}/" for name in path.split("/") if name not in ("", "."))
    lines = [prefix + hit for hit in found.hits]
    if not found.in_time:
        lines.append("[the search took too long and was stopped; use a simpler pattern or a glob]")
    elif not lines:
        lines.append("Nothing was found.")
    if found.more:
        lines.append("[there is more; narrow the search or raise the limit]")
    if found.too_large:
        lines.append(f"[{found.too_large} files were too large to be searched]")
    return "\n".join(lines)


async def search_folder(folder: int, query: Mapping[str, object], *, seconds: float = 10.0) -> Found:
    """Search the folder behind this descriptor. Raises ToolError if the pattern cannot be used."""
    # Isolated and without site-packages: it needs neither, and starts in a fraction of the time.
    command = (sys.executable, "-I", "-S", search_worker.__file__, str(folder), json.dumps(query))
    finished = await run_process(
        command, cwd=Path("/"), env={}, seconds=seconds, pass_fds=(folder,), starts_processes=False
    )
    hits: list[str] = []
    # The last piece is empty, or a line that was cut off when the time ran out.
    for line in finished.output.split(b"\n")[:-1]:
        if not line.startswith(b"{"):
            break
        message = json.loads(line)
        if "error" in message:
            raise ToolError(f"{message['error']}.")
        if "done" in message:
            return Found(hits, in_time=True, more=message["more"], too_large=message["too_large"])
        hits.append(message["hit"])
    if finished.exit_code is not None:
        raise ToolError("the search broke off; try a simpler pattern.")
    return Found(hits, in_time=False)
