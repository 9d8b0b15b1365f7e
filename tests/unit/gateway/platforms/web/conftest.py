from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.support.browser import Tab
from tests.support.web_harness import Chat, WebHarness, web_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[WebHarness]:
    """A web chat without a token, on a free port."""
    async with web_world(tmp_path) as world:
        yield world


@pytest.fixture
async def chat(world: WebHarness) -> Chat:
    """A conversation in which nothing was said yet."""
    return await world.open()


@pytest_asyncio.fixture(loop_scope="session")
async def tab(browser: Browser, world: WebHarness) -> AsyncIterator[Tab]:
    """A new chat; at the end the browser must have had nothing to complain about."""
    async with Tab.visiting(browser, world.url) as tab:
        yield tab
        assert tab.complaints == []
