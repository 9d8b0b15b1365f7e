"""The terminal, in its sandbox and without one: bounded in time and output, without Hermes' environment, and with
nothing left behind."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from pathlib import Path
from typing import Any

import pytest

from agent.messages import ToolCall
from agent.sandbox.sandbox import Sandbox
from agent.tool import Tool, ToolContext
from agent.toolbox import Toolbox, ToolResult
from agent.tools.terminal import terminal_in
from tests.support.sandboxed import NEEDS_SANDBOX, processes_with
from tests.support.tool_conversation import Run

MARK = f"1000.{secrets.randbelow(10**9):09}"
"""A unique number of seconds to sleep, which identifies the processes of these tests."""

LEAVE_CHILDREN = f"""
sleep {MARK} & echo > child.started
env -i sleep {MARK} & echo > unmarked.started
setsid sleep {MARK} & echo > apart.started
nohup sleep {MARK} >/dev/null 2>&1 & echo > immune.started
(setsid bash -c 'trap "" TERM HUP; echo > daemon.started; sleep {MARK}; true' </dev/null >/dev/null 2>&1 &)
until [ -s daemon.started ]; do :; done
echo ready
"""


@pytest.fixture(params=[pytest.param("bubblewrap", marks=NEEDS_SANDBOX), "off"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def terminal(mode: str) -> Tool:
    return terminal_in(None if mode == "off" else Sandbox())


@pytest.fixture
def run(ctx: ToolContext, terminal: Tool) -> Run:
    """Calls the tool as the model does, through the toolbox."""
    toolbox = Toolbox([terminal])

    async def call(name: str, /, **arguments: Any) -> ToolResult:
        return await toolbox.run(ToolCall("call_1", name, json.dumps(arguments)), ctx)

    return call


def survivors(workspace: Path) -> list[int]:
    started = sorted(path.stem for path in workspace.glob("*.started"))
    assert started == ["apart", "child", "daemon", "immune", "unmarked"]
    return processes_with(MARK)


async def test_a_command_runs_in_the_workspace(run: Run, mode: str, workspace: Path) -> None:
    """Its output, both kinds as they come, and its exit code."""
    result = await run("terminal", command="pwd; echo oops >&2; echo hello > file; exit 3")
    assert result.ok
    assert result.content == f"{workspace if mode == 'off' else '/workspace'}\noops\n[exit code 3]"
    assert (workspace / "file").read_text() == "hello\n"


async def test_silence_is_an_answer(run: Run) -> None:
    """A command without output gives its exit code."""
    assert (await run("terminal", command="true")).content == "[exit code 0]"


async def test_there_is_no_input(run: Run) -> None:
    """A command that asks does not wait for an answer that cannot come."""
    assert (await run("terminal", command="read answer || echo nobody there")).content.startswith(
        "nobody there"
    )


async def test_the_environment_is_bare(
    run: Run, mode: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No key of Hermes' own environment is passed on, nor anything else."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    content = (await run("terminal", command="/usr/bin/env -0 | tr '\\0' '\\n'")).content
    variables = dict(line.split("=", 1) for line in content.splitlines()[:-1])
    ours = {"PATH", "HOME", "LANG", "TERM"} | ({"HERMES_RUN"} if mode == "off" else set())
    bashs = {"PWD", "OLDPWD", "SHLVL", "_"}
    assert set(variables) - bashs == ours
    assert variables["HOME"] == (str(workspace) if mode == "off" else "/workspace")


async def test_a_command_that_kills_itself(run: Run) -> None:
    """Is not mistaken for one that was killed, and nothing is said on its behalf."""
    assert (await run("terminal", command="echo a; kill -9 $$")).content in (
        "a\n[exit code 137]",
        "a\n[exit code -9]",
    )


async def test_what_is_left_in_the_background_ends_too(run: Run, workspace: Path) -> None:
    """The command ends at once and takes its children along, also those that left its group."""
    result = await run("terminal", command=LEAVE_CHILDREN)
    assert result.content == "ready\n[exit code 0]"
    assert survivors(workspace) == []


async def test_time_runs_out(run: Run, workspace: Path) -> None:
    """What it said until then is given; it and all it started are gone."""
    result = await run("terminal", command=LEAVE_CHILDREN + "wait", timeout=1)
    assert result.ok
    assert result.content == "ready\n[killed with everything it had started: it ran longer than 1 s]"
    assert survivors(workspace) == []


@pytest.fixture
def barrier(workspace: Path) -> Path:
    """A pipe in the workspace blocks its reader until there is a writer."""
    workspace.mkdir(parents=True)
    os.mkfifo(workspace / "barrier")
    return workspace / "barrier"


async def test_a_stop_ends_everything(
    ctx: ToolContext, terminal: Tool, workspace: Path, barrier: Path
) -> None:
    """A cancelled call leaves no process behind."""
    command = LEAVE_CHILDREN + "echo go > barrier; wait"
    task = asyncio.create_task(terminal.call(ctx, {"command": command}))
    assert await asyncio.to_thread(barrier.read_text) == "go\n"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert survivors(workspace) == []


async def test_output_is_bounded_while_it_comes(run: Run, workspace: Path) -> None:
    """Of fifty million bytes the beginning and the end are kept, and what is missing is said."""
    command = "echo begin; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo end"
    content = (await run("terminal", command=command)).content
    assert content.startswith("begin\nxxx")
    assert "bytes from the middle of the output were not kept]" in content
    assert "xxx\nend\n[exit code 0; " in content
    [kept] = (workspace / ".outputs").iterdir()
    assert 1_000_000 < kept.stat().st_size < 1_100_000


async def test_bytes_that_are_no_text(run: Run) -> None:
    """They are replaced, not refused."""
    assert (
        await run("terminal", command="printf 'a\\377b'")
    ).content == "a\N{REPLACEMENT CHARACTER}b\n[exit code 0]"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"command": ""}, "`command`: string should have at least 1 character"),
        ({"command": "echo \0"}, "NUL byte"),
        ({"command": "true", "timeout": 601}, "`timeout`: input should be less than or equal to 600"),
    ],
)
async def test_commands_that_are_refused(run: Run, arguments: dict[str, object], expected: str) -> None:
    """Each with a sentence."""
    result = await run("terminal", **arguments)
    assert not result.ok
    assert expected in result.content
