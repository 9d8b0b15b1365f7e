"""A real browser at the web chat."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.support.web_harness import WebHarness, web_harness

CHROMIUM = shutil.which("chromium")
PICTURES = Path(__file__).parents[2] / "artifacts"
IMAGES = Path(__file__).parents[2] / "docs" / "images"
ON_PAGES = {
    "chat-light": "chat.png",
    "dashboard-overview-light": "dashboard.png",
    "dashboard-lineage-light": "lineage.png",
}
"""Pictures in the documentation; `make pictures` retakes them."""

IN_A_BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (apt-get install chromium)"),
    pytest.mark.asyncio(loop_scope="session"),
]
"""For `pytestmark`: all of them share one connection to the browser, so they share its event loop."""

# On a busy machine the browser is slow, not wrong.
expect.set_options(timeout=20_000)

_PARTS = """() => [...document.querySelectorAll("#log > :not(.usage)")].map((part) => {
  const shown = part.cloneNode(true);
  shown.querySelectorAll(".visually-hidden, .tool-details").forEach((each) => each.remove());
  return `${part.className}: ${shown.textContent}`;
})"""

_ARGUMENTS = [
    "--headless",
    "--remote-debugging-port=0",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@contextmanager
def chromium(profile: Path) -> Iterator[str]:
    """Headless Chromium; gives the address at which tests reach it. To start it takes longer than most of them."""
    assert CHROMIUM is not None
    command = [CHROMIUM, *_ARGUMENTS, f"--user-data-dir={profile}", "about:blank"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = iter(process.stderr.readline, "")
            told = next(line for line in lines if line.startswith("DevTools listening on "))
            # The rest of its output is not read, and it must not block on that.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield told.removeprefix("DevTools listening on ").strip()
        finally:
            process.kill()


@asynccontextmanager
async def at_chromium(address: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.connect_over_cdp(address)
        try:
            yield browser
        finally:
            await browser.close()


@pytest_asyncio.fixture(name="harness", loop_scope="session")
async def browser_harness(tmp_path: Path) -> AsyncIterator[WebHarness]:
    """As the `harness` of the other tests, but on the browser's event loop. A file takes it by importing it."""
    async with web_harness(tmp_path) as harness:
        yield harness


class Tab:
    """One tab: what the person does, and what they see."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        """Lines of the browser console, content security violations included."""
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    @classmethod
    @asynccontextmanager
    async def visiting(cls, browser: Browser, url: str = "", **options: Any) -> AsyncIterator[Tab]:
        """A tab with its own cookies; empty without an address."""
        context = await browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})
        try:
            tab = cls(await context.new_page())
            if url:
                await tab.page.goto(url)
            yield tab
        finally:
            await context.close()

    async def type(self, text: str) -> None:
        """Types and presses Enter."""
        await self.page.get_by_label("Message", exact=True).fill(text)
        await self.page.keyboard.press("Enter")

    async def sees(self, selector: str, text: str | None = None, count: int | None = None) -> None:
        """Waits until it is there: visible, with this text, this many times."""
        found = self.page.locator(selector)
        if count is not None:
            await expect(found).to_have_count(count)
        elif text is not None:
            await expect(found.last).to_contain_text(text)
        else:
            await expect(found.last).to_be_visible()

    async def sees_no(self, selector: str) -> None:
        await expect(self.page.locator(selector).locator("visible=true")).to_have_count(0)

    async def said(self) -> list[str]:
        """The conversation part by part, as `kind: text`, without headings for screen readers and usage."""
        parts: list[str] = await self.page.evaluate(_PARTS)
        return [" ".join(part.split()) for part in parts]

    async def picture(self, name: str) -> Path:
        """Kept in artifacts/; with HERMES_WRITE_PICTURES, those of ON_PAGES in docs/images as well."""
        path = PICTURES / f"{name}.png"
        await self.page.screenshot(path=path, animations="disabled")
        if os.environ.get("HERMES_WRITE_PICTURES") and name in ON_PAGES:
            shutil.copy(path, IMAGES / ON_PAGES[name])
        return path
