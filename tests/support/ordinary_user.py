"""Runs Hermes bound by file permissions, also where the tests run as root, whom nothing would be refused."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.warm import HERMES, run

_ROOT = Path(__file__).parents[2]


def hermes(*arguments: str, typed: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """`hermes ...` in a process of its own, with these variables added to the environment."""
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), **variables}
    return run([*HERMES, *arguments], env=environment, typed=typed, ordinary=True)
