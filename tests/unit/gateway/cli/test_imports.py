"""Each command finds what it needs by itself, whichever of our modules are imported before it elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]

ONE_BY_ONE = """
import os, sys
import aiohttp, click, pydantic, rich.console, structlog, yaml
from gateway.cli import COMMANDS

before = sorted(name for name in sys.modules if name.partition(".")[0] in ("agent", "gateway"))
for module in sorted({entry.module for entry in COMMANDS.values()}):
    if (child := os.fork()) == 0:
        __import__(f"gateway.cli.{module}")
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(f"gateway.cli.{module} cannot be imported first")
print(before)
"""


def test_every_command_can_be_the_first() -> None:
    """Most tests start Hermes with all of it imported, where a circle of imports would not be noticed."""
    done = subprocess.run(
        [sys.executable, "-c", ONE_BY_ONE], cwd=ROOT, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(["agent", "agent.errors", "gateway", "gateway.cli"]), (
        "the rest comes anew"
    )
