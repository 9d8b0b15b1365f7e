"""The pages about conversations in a real browser: how they look, whom they keep out, and what their buttons do."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from agent.llm import Usage
from agent.messages import Message
from agent.store import Split
from tests.support.browser import IN_A_BROWSER, Tab
from tests.support.dashboard_conversations import PAGES, LongChat, long_chat, opened, said
from tests.support.dashboard_harness import (
    PHONE,
    accessibility_violations,
    running_dashboard,
    scrolls_sideways,
)
from tests.support.gateways import Gate

pytestmark = IN_A_BROWSER


@pytest_asyncio.fixture(loop_scope="session")
async def chat(tmp_path: Path) -> AsyncIterator[LongChat]:
    """Compacted twice, with a line that was left behind, and two others beside it."""
    async with running_dashboard(tmp_path) as dashboard:
        for name, person in (("a", "telegram:4711"), ("b", "discord:12")):
            other = await opened(dashboard.store, name, platform=person.partition(":")[0], person=person)
            await said(dashboard.store, other, f"Where is the boat of {person}?", "At the **pier**.")
        chat = await long_chat(dashboard)
        await chat.compress()
        left = await chat.live()
        for tokens in (33_500, 36_000, 41_000):
            await dashboard.store.sessions.record_usage(
                left, Usage(tokens, 10, cost_usd=0.001), model="scripted/demo"
            )
        await dashboard.store.sessions.append(left, [Message("user", "And the other way round?")])
        await dashboard.store.sessions.split(Split(left, "branch", [], "Prompt."))
        await dashboard.store.sessions.make_live(left, instead_of=await chat.live())
        yield chat


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_page_can_be_read_by_everybody(browser: Browser, chat: LongChat, scheme: str) -> None:
    """In either light, on a desk and on a phone: axe finds nothing, and no page is wider than the screen."""
    split = (await chat.dashboard.store.sessions.sessions(chat.id))[1].id
    pages = {
        "conversations": PAGES,
        "search": f"{PAGES}?q=lighthouse+papers",
        "conversation": f"{chat.page}?message="
        + (await chat.dashboard.store.sessions.transcript(chat.id))[-3].id,
        "context": f"{chat.page}/context",
        "split": f"{chat.page}/splits/{split}",
    }
    async with Tab.visiting(browser, color_scheme=scheme) as tab:
        for name, path in pages.items():
            await tab.page.set_viewport_size({"width": 1200, "height": 900})
            await tab.page.goto(chat.dashboard.url + path)
            assert await accessibility_violations(tab) == [], name
            await pictures(tab, name, scheme)
            await tab.page.set_viewport_size(PHONE)
            assert not await scrolls_sideways(tab), name
            await pictures(tab, name, f"{scheme}-phone")
        assert tab.complaints == []


async def pictures(tab: Tab, name: str, kind: str) -> None:
    await tab.picture(f"dashboard-{name}-{kind}")
    for part in ("window", "lineage") if name == "context" else ():
        await tab.page.evaluate(f"document.getElementById('{part}').scrollIntoView()")
        await tab.picture(f"dashboard-{part}-{kind}")


async def test_a_tool_call_is_unfolded(browser: Browser, chat: LongChat) -> None:
    """By the keyboard; and it stays so when something new is said."""
    async with Tab.visiting(browser, chat.dashboard.url + chat.page) as tab:
        fold = tab.page.locator("details.tool").first
        await expect(fold.locator("pre").first).not_to_be_visible()
        await fold.locator("summary").focus()
        await tab.page.keyboard.press("Enter")
        await expect(fold.locator("pre").last).to_contain_text("a word of 4 letters")
        await tab.picture("dashboard-tool")
        await chat.dashboard.store.sessions.append(await chat.live(), [Message("user", "And stork?")])
        await tab.sees(".message", "And stork?")
        await expect(fold.locator("pre").last).to_be_visible()


_COUNTED = """
  let told = 0;
  window.EventSource = class extends EventSource {
    constructor(address) {
      super(address);
      this.addEventListener("message", () => { document.documentElement.dataset.told = ++told; });
    }
  };
"""


async def test_what_came_while_somebody_marked_words(browser: Browser, chat: LongChat) -> None:
    """Nothing is taken from under the pointer; it shows as soon as nothing is marked any more."""
    async with Tab.visiting(browser) as tab:
        await tab.page.add_init_script(_COUNTED)
        await tab.page.goto(chat.dashboard.url + chat.page)
        await tab.sees("html[data-told='1']")
        await tab.page.evaluate("getSelection().selectAllChildren(document.querySelector('.message-text'))")
        await chat.dashboard.store.sessions.append(await chat.live(), [Message("user", "And stork?")])
        await tab.sees("html[data-told='2']")
        await expect(tab.page.locator(".message", has_text="And stork?")).to_have_count(0)
        await tab.page.evaluate("getSelection().removeAllRanges()")
        await tab.sees(".message", "And stork?")


async def test_compress_now_and_back(browser: Browser, chat: LongChat) -> None:
    """Each says what it did, and the page shows it without being loaded again."""
    async with Tab.visiting(browser, f"{chat.dashboard.url}{chat.page}/context") as tab:
        tab.page.on("dialog", lambda dialog: dialog.accept())
        await tab.sees(".lineage li", count=3)
        first = (await chat.dashboard.store.sessions.sessions(chat.id))[0].id
        await tab.page.locator(f"#restore-{first}").click()
        await tab.sees("#status", "Restored:")
        await tab.sees(".lineage li", count=4)
        chat.dashboard.script.will("## Goal\nThe tides.")
        await tab.page.get_by_label("Topic to keep more of").fill("tides")
        await tab.page.get_by_role("button", name="Compress now").click()
        await tab.sees("#status", "Focus: tides.")
        await tab.sees(".lineage li", count=5)
        await tab.sees("li[data-live-session]", "topic: tides")


async def test_a_turn_is_seen_while_it_runs(browser: Browser, chat: LongChat) -> None:
    """And its answer once it is there."""
    gate = Gate()
    chat.dashboard.script.will([gate, "Done now."])
    async with Tab.visiting(browser, chat.dashboard.url + chat.page) as tab:
        await (await chat.dashboard.open("desk")).send("What now?")
        await tab.sees(".running", "Hermes is answering")
        gate.set()
        await tab.sees(".message", "Done now.")
        await tab.sees_no(".running")


async def test_reading_needs_no_script(browser: Browser, chat: LongChat) -> None:
    """The search, its hits, the chart and the tree; buttons that would do nothing are not there."""
    async with Tab.visiting(browser, chat.dashboard.url + PAGES, java_script_enabled=False) as tab:
        await tab.page.get_by_label("Search messages").fill("pier")
        await tab.page.get_by_label("Platform").select_option("discord")
        await tab.page.get_by_role("button", name="Search").click()
        await tab.sees(".search-results li", count=1)
        await tab.page.locator(".search-results a").click()
        await expect(tab.page).to_have_url(re.compile("#msg_"))
        await tab.sees(".message.linked", "At the pier.")
        await tab.page.goto(f"{chat.dashboard.url}{chat.page}/context")
        await expect(tab.page.locator("svg.window .curve").first).to_be_visible()
        await tab.sees_no("button[data-post], form[data-post]")
