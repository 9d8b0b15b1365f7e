"""Whether a sandbox can be made on this machine, and the terminal tool as it can be had here.

Where there is none, tests of other things (who decides, what is shown) let commands run without one; tests of the
sandbox itself skip and say why.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Literal

import pytest

from agent.sandbox.sandbox import Sandbox
from agent.tools.terminal import terminal_in

_SMALLEST = (
    "bwrap", "--unshare-user", "--unshare-all", "--disable-userns",
    "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true",
)  # fmt: skip


def _why_not() -> str:
    """Bubblewrap is asked without a line of ours: a fault of ours must not pass for a machine that cannot do it."""
    options: dict[str, Any] = (
        {"user": 65_534, "group": 65_534, "extra_groups": []} if os.geteuid() == 0 else {}
    )
    try:
        tried = subprocess.run(
            _SMALLEST, cwd="/", capture_output=True, text=True, timeout=20, check=False, **options
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return tried.stderr.strip() if tried.returncode else ""


_WHY_NOT = _why_not()

NEEDS_SANDBOX = pytest.mark.skipif(bool(_WHY_NOT), reason=f"no sandbox here: {_WHY_NOT}")
NEEDS_PERL = pytest.mark.skipif(not shutil.which("perl", path="/usr/bin"), reason="the system has no Perl")
MODE: Literal["bubblewrap", "off"] = "off" if _WHY_NOT else "bubblewrap"
TERMINAL = terminal_in(None if _WHY_NOT else Sandbox())


def processes_with(mark: str) -> list[int]:
    """Return the processes, sandboxed or not, with this text in their command line; zombies have none."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found
