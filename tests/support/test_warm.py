"""A Hermes that starts warm is a process like any other, and cannot be told from one that starts cold."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.hermes_process import environment
from tests.support.warm import HERMES, run, spawn

PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


@pytest.mark.parametrize(
    "arguments", [["--version"], ["session"], ["config", "show"], ["setup"]], ids=lambda words: words[0]
)
def test_it_says_and_ends_with_the_same(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same directory, with the same variables and the same words typed; one is well, three are refused."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hermes.yaml").write_text("modle: {}\n")
    command, env = [*HERMES, *arguments], {**os.environ, "ANTHROPIC_API_KEY": "sk-fake"}
    cold = subprocess.run(command, env=env, input="?\n", capture_output=True, text=True, timeout=60)
    warm = run(command, env=env, typed="?\n")
    assert (warm.returncode, warm.stdout, warm.stderr) == (cold.returncode, cold.stdout, cold.stderr)


async def test_it_is_a_process_of_its_own(private_home: Path) -> None:
    """The process reads its standard input, a signal ends it, and `wait` returns the signal."""
    command, env = [*HERMES, "chat", "-q", "-"], environment(private_home)
    waiting, killed = await spawn(*command, env=env, **PIPES), await spawn(*command, env=env, **PIPES)
    assert len({os.getpid(), waiting.pid, killed.pid}) == 3
    os.kill(waiting.pid, 0)
    killed.send_signal(signal.SIGKILL)
    assert await killed.communicate() == (b"", b"")
    assert await killed.wait() == killed.returncode == -signal.SIGKILL
    _, said = await asyncio.wait_for(waiting.communicate(b" \n"), 30)
    assert b"There is no question" in said
    assert waiting.returncode == 2
