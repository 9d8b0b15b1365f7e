from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.dashboard_harness import DashboardHarness, running_dashboard


@pytest.fixture
async def dashboard(tmp_path: Path) -> AsyncIterator[DashboardHarness]:
    """A Hermes without a token, and its dashboard."""
    async with running_dashboard(tmp_path) as dashboard:
        yield dashboard
