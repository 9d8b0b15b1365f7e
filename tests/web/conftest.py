from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.web.browser import Tab, at_chromium, chromium
from tests.web.world import Chat, World, web_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A web chat without a token, on a free port."""
    async with web_world(tmp_path) as world:
        yield world


@pytest.fixture
async def chat(world: World) -> Chat:
    """A conversation in which nothing was said yet."""
    return await world.open()


@pytest.fixture(scope="session")
def chromium_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One for all tests of a worker; each has its own window, cookies and storage."""
    with chromium(tmp_path_factory.mktemp("chromium")) as address:
        yield address


@pytest.fixture
async def browser(chromium_address: str) -> AsyncIterator[Browser]:
    async with at_chromium(chromium_address) as browser:
        yield browser


@pytest.fixture
async def tab(browser: Browser, world: World) -> AsyncIterator[Tab]:
    """A new chat; at the end the browser must have had nothing to complain about."""
    async with Tab.visiting(browser, world.url) as tab:
        yield tab
        assert tab.complaints == []
