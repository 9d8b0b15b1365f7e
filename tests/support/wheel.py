"""Builds the wheel of a source tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"


def build_wheel(source: Path, target: Path) -> Path:
    """Build the wheel of `source` into the directory `target` and return its path."""
    built = subprocess.run(
        [sys.executable, "-c", _BUILD, str(target)], cwd=source, capture_output=True, text=True, check=True
    )
    return target / built.stdout.split()[-1]
