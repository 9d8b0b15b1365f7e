"""Runs shell commands in the conversation's workspace, in a sandbox. Off unless the owner turns it on."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Annotated

from pydantic import Field

from agent.errors import ToolError
from agent.sandbox.bubblewrap import HOME, PATH
from agent.sandbox.process import Finished, run_process
from agent.sandbox.sandbox import Sandbox
from agent.tool import Tool, ToolContext, tool
from agent.tool_support.workspace import Workspace

_LONGEST = 600


# The limit of the call itself leaves time for ending what the command started.
@tool(timeout=_LONGEST + 30, dangerous=True, effects=True, outside=True)
async def terminal(
    ctx: ToolContext,
    command: Annotated[str, Field(min_length=1, max_length=20_000, description="Given to `bash -c`.")],
    timeout: Annotated[  # noqa: ASYNC109 - it is the command's limit, named as models expect it
        int, Field(ge=1, le=_LONGEST, description="Seconds after which it is killed.")
    ] = 60,
) -> str:
    """Run a shell command in the workspace, without input. When it ends, everything it left in the background
    is ended too."""
    return await _in_sandbox(Sandbox(), ctx, command, timeout)


def terminal_in(sandbox: Sandbox | None) -> Tool:
    """Return the terminal tool for a sandbox. Without one, a command may do all that Hermes may do."""

    async def function(ctx: ToolContext, command: str, timeout: int) -> str:  # noqa: ASYNC109 - see above
        if sandbox is None:
            return await _unconfined(ctx, command, timeout)
        return await _in_sandbox(sandbox, ctx, command, timeout)

    if sandbox is None:
        return dataclasses.replace(terminal, function=function)
    network = "It reaches the network." if sandbox.network else "There is no network."
    where = f"It can read the system's programs and write to the workspace ({HOME}) and /tmp. {network}"
    return dataclasses.replace(terminal, function=function, description=f"{terminal.description} {where}")


async def _in_sandbox(sandbox: Sandbox, ctx: ToolContext, command: str, seconds: int) -> str:
    workspace = await _prepared(ctx, command)
    seconds = min(seconds, sandbox.seconds)
    ran = await sandbox.run(command, workspace.root, seconds=seconds)
    if ran.too_much_memory:
        return _as_text(
            ran.finished, f"killed with everything it had started: it used more than {sandbox.memory_mb:,} MB"
        )
    return _as_text(ran.finished, _how_it_ended(ran.finished, seconds))


async def _unconfined(ctx: ToolContext, command: str, seconds: int) -> str:
    workspace = await _prepared(ctx, command)
    # Nothing of Hermes' own environment is passed on: that is where the keys are.
    env = {"PATH": PATH, "HOME": str(workspace.root), "LANG": "C.UTF-8", "TERM": "dumb"}
    try:
        finished = await run_process(("bash", "-c", command), cwd=workspace.root, env=env, seconds=seconds)
    except FileNotFoundError as exc:
        raise ToolError("`bash` is not installed on this machine.") from exc
    return _as_text(finished, _how_it_ended(finished, seconds))


async def _prepared(ctx: ToolContext, command: str) -> Workspace:
    if "\0" in command:
        raise ToolError("the command holds a NUL byte.")
    workspace = Workspace(ctx.workspace)
    await asyncio.to_thread(workspace.prepare)
    return workspace


def _how_it_ended(finished: Finished, seconds: int) -> str:
    if finished.exit_code is None:
        return f"killed with everything it had started: it ran longer than {seconds} s"
    return f"exit code {finished.exit_code}"


def _as_text(finished: Finished, ending: str) -> str:
    text = finished.output.decode(errors="replace").rstrip("\n")
    notes = [ending]
    if finished.left_out:
        notes.append(f"{finished.left_out:,} bytes from the middle of the output were not kept")
    return f"{text}\n[{'; '.join(notes)}]".lstrip("\n")
