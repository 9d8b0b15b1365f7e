from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.support.browser import Tab
from tests.support.web_harness import Chat, WebHarness, web_harness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[WebHarness]:
    """A web chat without a token, on a free port."""
    async with web_harness(tmp_path) as harness:
        yield harness


@pytest.fixture
async def chat(harness: WebHarness) -> Chat:
    """A conversation in which nothing was said yet."""
    return await harness.open()


@pytest_asyncio.fixture(loop_scope="session")
async def tab(browser: Browser, harness: WebHarness) -> AsyncIterator[Tab]:
    """A new chat; at the end the browser must have had nothing to complain about."""
    async with Tab.visiting(browser, harness.url) as tab:
        yield tab
        assert tab.complaints == []
