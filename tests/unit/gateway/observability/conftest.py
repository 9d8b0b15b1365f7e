from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.metrics_harness import MetricsHarness, metrics_harness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[MetricsHarness]:
    async with metrics_harness(tmp_path) as harness:
        yield harness
