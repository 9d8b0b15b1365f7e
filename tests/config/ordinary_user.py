"""Runs Hermes bound by file permissions, also where the tests run as root, whom nothing would be refused."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2


def hermes(*arguments: str, typed: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """`hermes ...` in a process of its own, with these variables added to the environment."""
    return subprocess.run(
        [sys.executable, "-m", "gateway.cli", *arguments],
        env={**os.environ, "PYTHONPATH": str(_ROOT), **variables},
        preexec_fn=_give_up_override() if os.geteuid() == 0 else None,
        input=typed,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def _give_up_override() -> Callable[[], None]:
    prctl = ctypes.CDLL(None).prctl

    def give_up() -> None:
        for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            if prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
                raise OSError("root cannot give up its privileges here")

    return give_up
