"""A fresh harness for every test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.command_harness import CommandHarness, opened


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[CommandHarness]:
    async with opened(tmp_path) as harness:
        yield harness
