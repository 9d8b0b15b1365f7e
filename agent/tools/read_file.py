"""Reads text from the conversation's workspace, a bounded piece at a time."""

from __future__ import annotations

import asyncio
import codecs
from typing import Annotated

from pydantic import Field

from agent.errors import ToolError
from agent.redaction import redact
from agent.tool import ToolContext, tool
from agent.tool_support.workspace import Workspace

_PIECE = 10_000
"""Characters in one answer: below what a result may hold, so that it is never stored a second time."""

_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@tool(outside=True)
async def read_file(
    ctx: ToolContext,
    path: Annotated[str, Field(description="Path relative to the workspace.")],
    offset: Annotated[int, Field(ge=1, description="First line to read, counted from 1.")] = 1,
    limit: Annotated[int, Field(ge=1, le=2_000, description="How many lines to read at most.")] = 400,
    column: Annotated[
        int,
        Field(ge=1, description="Where to begin in the first line; only for lines too long for one answer."),
    ] = 1,
    numbered: Annotated[bool, Field(description="Put its number before each line.")] = False,
) -> str:
    """Read a text file from the workspace. Long files come in pieces; each says how to go on."""
    return await asyncio.to_thread(_read, Workspace(ctx.workspace), path, offset, limit, column, numbered)


def _read(workspace: Workspace, path: str, offset: int, limit: int, column: int, numbered: bool) -> str:
    # All of it, before a piece is taken: the middle of a key does not look like one.
    lines = redact(_decode(path, workspace.read(path))).split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return f"`{path}` is empty."
    if offset > len(lines):
        raise ToolError(f"`{path}` has only {len(lines)} lines.")
    return _piece(lines, offset, limit, column, numbered)


def _decode(path: str, data: bytes) -> str:
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    if b"\0" in data[:8_192]:
        raise ToolError(f"`{path}` is a binary file of {len(data):,} bytes, not text.")
    return data.decode(errors="replace")


def _piece(lines: list[str], offset: int, limit: int, column: int, numbered: bool) -> str:
    shown: list[str] = []
    room = _PIECE
    number = offset
    for number, line in enumerate(lines[offset - 1 : offset - 1 + limit], start=offset):
        prefix = f"{number:>6}  " if numbered else ""
        rest = line[column - 1 :] if number == offset else line
        if len(prefix) + len(rest) <= room:
            shown.append(prefix + rest)
            room -= len(shown[-1]) + 1
            continue
        if shown:
            return _with_hint(shown, f"continue with offset={number}", lines)
        cut = room - len(prefix)
        return _with_hint(
            [prefix + rest[:cut]], f"line {number} goes on: offset={number}, column={column + cut}", lines
        )
    if number < len(lines):
        return _with_hint(shown, f"continue with offset={number + 1}", lines)
    return "\n".join(shown)


def _with_hint(shown: list[str], hint: str, lines: list[str]) -> str:
    return "\n".join(shown) + f"\n\n[{len(lines):,} lines in all; {hint}]"
