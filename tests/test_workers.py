"""What `tests/workers.py` names is there: a file that is renamed would be spread over the workers again, in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workers import TOGETHER

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("beginning", TOGETHER)
def test_what_stays_together_exists(beginning: str) -> None:
    """Each is the beginning of the path of some test file."""
    paths = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    assert any(path.startswith(beginning) for path in paths)
