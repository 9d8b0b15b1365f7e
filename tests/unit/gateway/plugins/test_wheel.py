"""Engines of installed wheels are found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.foreign_plugins import ENGINE, write
from tests.support.wheel import build_wheel

ROOT = Path(__file__).parents[4]


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Install the wheels as pip would."""
    target = tmp_path / "site-packages"
    with zipfile.ZipFile(build_wheel(ROOT, tmp_path)) as wheel:
        wheel.extractall(target)
    return target


def test_engines_of_wheels(installed: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write(other / "plugins" / "context_engine" / "mine", ENGINE)
    shown = subprocess.run(
        [sys.executable, "-P", "-m", "gateway.cli", "plugins", "list", "--json"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (installed, other)))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    engines = {
        engine["name"]: engine
        for engine in json.loads(shown.stdout)["context_engines"]
        if not engine["problem"]
    }
    assert engines["sliding_window"]["folder"] == str(installed / "plugins/context_engine/sliding_window")
    assert engines["sliding_window"]["description"]
    assert engines["mine"]["folder"] == str(other / "plugins/context_engine/mine")
