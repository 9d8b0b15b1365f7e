"""Runs shell commands in the conversation's workspace. Off unless the owner turns it on."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import Field

from agent.errors import ToolError
from agent.tool import ToolContext, tool
from agent.tool_support.process import Finished, run_process
from agent.tool_support.workspace import Workspace

_LONGEST = 600

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


# The limit of the call itself leaves time for ending what the command started.
@tool(timeout=_LONGEST + 30, dangerous=True, effects=True)
async def terminal(
    ctx: ToolContext,
    command: Annotated[str, Field(min_length=1, max_length=20_000, description="Given to `bash -c`.")],
    timeout: Annotated[  # noqa: ASYNC109 - it is the command's limit, named as models expect it
        int, Field(ge=1, le=_LONGEST, description="Seconds after which it is killed.")
    ] = 60,
) -> str:
    """Run a shell command in the workspace, without input. When it ends, everything it left in the background
    is ended too."""
    if "\0" in command:
        raise ToolError("the command holds a NUL byte.")
    workspace = Workspace(ctx.workspace)
    await asyncio.to_thread(workspace.prepare)
    # Nothing of Hermes' own environment is passed on: that is where the keys are.
    env = {"PATH": _PATH, "HOME": str(workspace.root), "LANG": "C.UTF-8", "TERM": "dumb"}
    try:
        finished = await run_process(("bash", "-c", command), cwd=workspace.root, env=env, seconds=timeout)
    except FileNotFoundError as exc:
        raise ToolError("`bash` is not installed on this machine.") from exc
    return _as_text(finished, timeout)


def _as_text(finished: Finished, seconds: int) -> str:
    text = finished.output.decode(errors="replace").rstrip("\n")
    notes = [f"exit code {finished.exit_code}"]
    if finished.exit_code is None:
        notes = [f"killed with everything it had started: it ran longer than {seconds} s"]
    if finished.left_out:
        notes.append(f"{finished.left_out:,} bytes from the middle of the output were not kept")
    return f"{text}\n[{'; '.join(notes)}]".lstrip("\n")
