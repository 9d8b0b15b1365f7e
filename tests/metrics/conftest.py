from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.metrics.measured import Measured, measured_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Measured]:
    async with measured_world(tmp_path) as world:
        yield world
