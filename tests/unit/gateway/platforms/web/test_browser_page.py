"""The page in a real browser: phone and desktop, keyboard, without JavaScript, sign-in, and how it looks."""

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
from tests.support.web_harness import WebHarness, web_harness

pytestmark = IN_A_BROWSER

PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "has_touch": True,
}
DARK = {"color_scheme": "dark"}


async def test_code_can_be_copied(browser: Browser, harness: WebHarness) -> None:
    """The button takes the code, not the line numbers of a guess."""
    harness.script.will(["```py\nprint('hi')\n```"])
    async with Tab.visiting(browser, harness.url, permissions=["clipboard-read", "clipboard-write"]) as tab:
        await tab.type("Code, please")
        await tab.sees(".usage")
        await tab.page.get_by_role("button", name="Copy").click()
        await tab.sees(".copy", "Copied")
        assert await tab.page.evaluate("navigator.clipboard.readText()") == "print('hi')\n"


async def test_the_conversation_can_be_read_without_javascript(browser: Browser, harness: WebHarness) -> None:
    """The words are there, and a line that says how to answer."""
    await (await harness.open()).ask("Hello")
    async with Tab.visiting(browser, harness.url, java_script_enabled=False) as tab:
        await tab.sees(".answer", "Yes.")
        await tab.sees("noscript p", "To write, enable it")
        await tab.sees_no("#composer")


async def test_a_token_is_asked_for_and_remembered(browser: Browser, tmp_path: Path) -> None:
    """A wrong one is refused; the right one opens, leaves the address, and holds for the next visit."""
    async with (
        web_harness(tmp_path, token="open sesame") as harness,
        Tab.visiting(browser, harness.url) as tab,
    ):
        await tab.page.get_by_label("Token").fill("wrong")
        await tab.page.keyboard.press("Enter")
        await tab.sees("p", "token is wrong")
        await tab.page.get_by_label("Token").fill("open sesame")
        await tab.page.keyboard.press("Enter")
        await tab.type("Hello")
        await tab.sees(".answer", "Yes.")
        assert "sesame" not in tab.page.url


async def test_on_a_phone_the_conversations_are_behind_a_button(
    browser: Browser, harness: WebHarness
) -> None:
    """Nothing is wider than the screen; the list opens, leads to a conversation, and is closed again there."""
    for name in ("first", "second"):
        await (await harness.open(name)).ask(f"The {name} question")
    async with Tab.visiting(browser, harness.url, **PHONE) as tab:
        await tab.sees_no("#sidebar")
        assert await tab.page.evaluate("document.documentElement.scrollWidth") == 390
        await tab.page.get_by_role("button", name="Conversations").click()
        await tab.page.get_by_role("link", name="The first question").click()
        await tab.sees(".user-message", "The first question")
        await tab.sees_no("#sidebar")


async def test_the_keyboard_reaches_everything(tab: Tab, harness: WebHarness) -> None:
    """The field has the focus at first; Tab goes through the controls, and each shows when it has it."""
    harness.script.will([ToolCall("c1", "look_up", '{"word": "wing"}')], ["Four."])
    await tab.type("Go")
    await tab.sees(".usage")
    outlines: dict[str, str] = {}
    for _ in range(11):
        await tab.page.keyboard.press("Tab")
        name, outline = await tab.page.evaluate(
            "(e => [e.id || e.className || e.localName, getComputedStyle(e).outlineStyle])(document.activeElement)"
        )
        outlines[name] = outline
    # The field shows its focus by the border around it; after the last control comes the page.
    assert outlines.pop("text") == outlines.pop("chat") == "none"
    assert {"skip", "new-chat", "dashboard-link", "a", "summary", "send"} <= set(outlines)
    assert set(outlines.values()) <= {"solid", "auto"}


@pytest.mark.parametrize(
    ("name", "options"),
    [("light", {}), ("dark", DARK), ("phone", PHONE), ("phone-dark", {**PHONE, **DARK})],
)
async def test_pictures(
    browser: Browser, harness: WebHarness, tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    """The page as people see it. The light one is the README's."""
    await _fill(harness, tmp_path)
    async with Tab.visiting(browser, harness.url, **options) as tab:
        await tab.sees(".usage")
        await tab.page.locator("#text").blur()
        await tab.picture(f"chat-{name}")
        assert tab.complaints == []


_EARLIER = (
    ("web", "What did we agree on about the invoices?"),
    ("terminal", "Why does the nightly backup take so long?"),
    ("web", "Translate my letter to the landlord into Japanese"),
)

_NOTES = """\
- [x] freeze the release branch
- [ ] rehearse the migration (Grace, Tuesday)
- [ ] announce the read-only hour (Ada, Wednesday)
"""

_ANSWER = """\
Two things are still open before the launch:

| What | Who | When |
|:--|:--|:--|
| Rehearse the migration | Grace | Tuesday |
| Announce the read-only hour | Ada | Wednesday |

The branch is **frozen already**. For the rehearsal, this is the command you wrote down last week:

```bash
./migrate --dry-run --from staging --report rehearsal.md
```
"""


async def _fill(harness: WebHarness, folder: Path) -> None:
    """A desk as it looks after a few days."""
    for at, (platform, question) in enumerate(_EARLIER):
        await (await harness.open(f"earlier {at}", platform)).ask(question)
    chat = await harness.open("launch")
    notes = folder / chat.id / "notes.md"
    notes.parent.mkdir(exist_ok=True)
    notes.write_text(_NOTES)
    harness.script.will(
        ["I will look at your notes.", ToolCall("c1", "read_file", '{"path": "notes.md"}')],
        [_ANSWER],
    )
    await chat.ask("What is left to do before the launch? It is all in my notes.")
