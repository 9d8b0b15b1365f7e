"""The page in a real browser: decisions about dangerous calls, files to take away, messages that wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser

from agent.messages import ToolCall
from tests.support.browser import (
    IN_A_BROWSER,
    Tab,
    browser_harness,  # noqa: F401 - a fixture
)
from tests.support.gateways import Gate
from tests.support.web_harness import WebHarness, web_harness

pytestmark = IN_A_BROWSER

PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "has_touch": True,
}
DARK = {"color_scheme": "dark"}
RUN = ToolCall("c1", "terminal", '{"command": "echo $((6 * 7))"}')
OPEN = ".approval[data-state=open]"


async def asked(tab: Tab, harness: WebHarness) -> None:
    """A turn that waits for the person."""
    harness.script.will([RUN], ["There."])
    await tab.type("Run it")
    await tab.sees(OPEN)


async def test_a_card_is_pressed_and_every_tab_sees_it(
    tab: Tab, harness: WebHarness, browser: Browser
) -> None:
    """The exact command, three buttons; after the click the outcome, here and elsewhere, and the command runs."""
    await asked(tab, harness)
    await tab.sees(f"{OPEN} pre", "echo $((6 * 7))")
    await tab.sees(f"{OPEN} .time-left", "10 min left")
    async with Tab.visiting(browser, tab.page.url) as other:
        await other.sees(OPEN)
        await tab.page.get_by_role("button", name="Once").click()
        for each in (tab, other):
            await each.sees(".approval[data-state=once] h2", "Allowed once")
            await each.sees(".tool[data-state=done]")
            await each.sees_no(".choices, #approval-reminder")
            await each.sees(".answer", "There.")
        assert other.complaints == []
    await tab.page.locator(".tool summary").click()
    await tab.sees(".tool pre", "42\n[exit code 0]")


async def test_the_keyboard_alone_can_decide(tab: Tab, harness: WebHarness) -> None:
    """From the field back to the reminder, through it to the buttons; the focus stays with the card."""
    await asked(tab, harness)
    await tab.page.locator("#text").focus()
    await tab.page.keyboard.press("Shift+Tab")
    await tab.sees("#approval-reminder:focus", "Hermes is waiting for your decision")
    await tab.page.keyboard.press("Enter")
    await tab.sees("[data-choice=once]:focus")
    await tab.page.keyboard.press("Tab")
    await tab.page.keyboard.press("Tab")
    await tab.sees("[data-choice=deny]:focus")
    await tab.page.keyboard.press("Space")
    await tab.sees(".approval[data-state=deny]:focus h2", "Denied")
    await tab.sees(".tool[data-state=failed]")


async def test_a_screen_reader_is_told_and_finds_names(tab: Tab, harness: WebHarness) -> None:
    """The log is silent while it is busy, so an alert outside of it speaks; the card is named by its question."""
    await asked(tab, harness)
    await tab.sees("[role=alert] >> text=Hermes is waiting for your decision")
    card = tab.page.get_by_role("region", name="May Hermes run terminal?")
    assert await card.get_by_role("button").all_text_contents() == ["Once", "This conversation", "Deny"]


async def test_a_card_expires_before_the_eyes(tab: Tab, harness: WebHarness) -> None:
    """The time that is left is shown; when nobody waits any more, the buttons are gone."""
    await tab.page.clock.install()
    await asked(tab, harness)
    await tab.page.clock.fast_forward(9 * 60_000 + 30_000)
    await tab.sees(f"{OPEN} .time-left", " s left")
    await tab.page.clock.resume()
    await tab.page.get_by_label("Stop the answer").click()
    await tab.sees(".approval[data-state=expired] h2", "Expired without an answer, not run")
    await tab.sees_no(".choices, #approval-reminder")


async def test_a_reload_keeps_the_question(tab: Tab, harness: WebHarness) -> None:
    """A later tab can decide too, and shows the card once."""
    await asked(tab, harness)
    await tab.page.reload()
    await tab.sees(OPEN, count=1)
    await tab.page.get_by_role("button", name="This conversation").click()
    await tab.sees(".approval[data-state=conversation]", "Allowed in this conversation")
    await tab.sees(".answer", "There.")


async def test_a_file_is_downloaded(tab: Tab, harness: WebHarness, tmp_path: Path) -> None:
    """A link with name and caption, during the turn and after a reload."""
    harness.script.will("First of all, hello.")
    await tab.type("Hello")
    await tab.sees(".usage")
    folder = tmp_path / tab.page.url.rpartition("/")[2]
    folder.mkdir()
    (folder / "report.md").write_text("# All is well\n")
    harness.script.will(
        [ToolCall("c1", "send_file", '{"path": "report.md", "caption": "As promised."}')], ["Sent."]
    )
    await tab.type("Send the report")
    await tab.sees(".usage", count=2)
    await tab.sees(".file .caption", "As promised.")
    for _ in range(2):
        async with tab.page.expect_download() as download:
            await tab.page.get_by_role("link", name="Download report.md").click()
        assert (await download.value).suggested_filename == "report.md"
        assert (await (await download.value).path()).read_text() == "# All is well\n"
        await tab.page.reload()
        await tab.sees(".file", count=1)


@pytest.mark.parametrize(
    ("busy", "label"),
    [
        ("queue", "after this answer"),
        ("steer", "at its next step"),
        ("interrupt", "Stops the current answer"),
    ],
)
async def test_a_waiting_message_is_marked_in_every_tab(
    browser: Browser, tmp_path: Path, busy: Any, label: str
) -> None:
    """With what becomes of it; the mark goes when its turn begins or the running one takes it in."""
    async with web_harness(tmp_path, busy=busy) as harness, Tab.visiting(browser, harness.url) as tab:
        gate, tool_gate = Gate(), Gate()
        harness.script.will(
            ["Thinking", gate, ToolCall("c1", "look_up", '{"word": "a"}')], [tool_gate, "Well."]
        )
        await tab.type("One")
        await tab.sees(".writing")
        async with Tab.visiting(browser, tab.page.url) as other:
            await other.sees(".writing")
            await tab.type("Two")
            if busy != "interrupt":
                for each in (tab, other):
                    await each.sees("#queue .bubble", "Two")
                    await each.sees("#queue .label", label)
                    await each.sees("#queue > *", count=1)
            gate.set()
            tool_gate.set()
            for each in (tab, other):
                await each.sees("#log .user-message", "Two")
                await each.sees("#queue > *", count=0)
                await each.sees_no("#stop")
            assert await tab.said() == await other.said()
            assert tab.complaints == other.complaints == []


@pytest.mark.parametrize(
    ("name", "options"),
    [("light", {}), ("dark", DARK), ("phone", PHONE), ("phone-dark", {**PHONE, **DARK})],
)
async def test_pictures(
    browser: Browser, harness: WebHarness, tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    """How an answered and an open question, a file and a waiting message look."""
    async with Tab.visiting(browser, harness.url, **options) as tab:
        await tab.type("Good morning")
        await tab.sees(".usage")
        folder = tmp_path / tab.page.url.rpartition("/")[2]
        folder.mkdir()
        (folder / "rehearsal.md").write_text("# Rehearsal\n")
        harness.script.will(
            [ToolCall("c1", "terminal", '{"command": "ls -1"}')],
            [ToolCall("c2", "send_file", '{"path": "rehearsal.md", "caption": "What the rehearsal wrote."}')],
            ["Here is the report. I can clean up now:", ToolCall("c3", "terminal", _LONG)],
        )
        await tab.type("Send me the report of the rehearsal, then clean up")
        await tab.page.get_by_role("button", name="Once").click()
        await tab.sees(OPEN, "find . -name")
        await tab.type("And tell Grace when it is done")
        await tab.sees("#queue .label", "Queued")
        await tab.page.locator("#text").blur()
        await tab.picture(f"decisions-{name}")
        width = options.get("viewport", {"width": 1200})["width"]
        assert await tab.page.evaluate("document.documentElement.scrollWidth") == width
        assert tab.complaints == []


_LONG = (
    '{"command": "set -e\\nfind . -name \'*.tmp\' -mtime +7 -print -delete\\n\\n'
    'tar --create --gzip --file rehearsal-archive.tar.gz rehearsal.md notes/", "timeout": 120}'
)
