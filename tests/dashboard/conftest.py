from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.dashboard.world import Watched, watched


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[Watched]:
    """A Hermes without a token, and its dashboard."""
    async with watched(tmp_path) as house:
        yield house
