"""The web chat in a real browser: what a person does and sees."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.async_api import Browser

from agent.errors import RateLimited
from agent.messages import ToolCall
from gateway.store.sqlite.store import SqliteStore
from tests.support.browser import (
    IN_A_BROWSER,
    Tab,
    browser_harness,  # noqa: F401 - a fixture
)
from tests.support.gateways import Gate
from tests.support.web_harness import WebHarness, web_harness

pytestmark = IN_A_BROWSER


async def test_an_answer_streams_and_is_then_rendered(tab: Tab, harness: WebHarness) -> None:
    """Plain while it arrives, with Stop at hand; Markdown, usage, title and address once it is whole."""
    gate = Gate()
    harness.script.will(["It has **six", gate, "** letters."])
    await tab.type("How many letters?")
    await tab.sees(".writing", "It has **six")
    await tab.sees("#stop")
    await tab.sees(".user-message", "How many letters?")

    gate.set()
    await tab.sees(".usage", "tokens in")
    await tab.sees_no("#stop, .writing, .working, .queued, .greeting")
    await tab.sees(".answer strong", "six")
    await tab.sees("nav a[aria-current]", "How many letters?")
    assert "/c/" in tab.page.url
    assert await tab.page.title() == "How many letters? · Hermes"


async def test_a_tool_call_is_folded_and_can_be_opened(tab: Tab, harness: WebHarness) -> None:
    """One quiet line with name, argument and time; arguments and result inside."""
    harness.script.will(["Let me see.", ToolCall("c1", "look_up", '{"word": "wing"}')], ["Four."])
    await tab.type("How long is wing?")
    await tab.sees(".usage")
    await tab.sees(".tool[data-state=done] summary", "look_up")
    await tab.sees(".tool summary", "wing")
    await tab.sees(".tool .state", " s")
    await tab.sees_no(".tool pre")

    await tab.page.locator(".tool summary").click()
    await tab.sees(".tool pre", "wing: a word of 4 letters")
    assert await tab.said() == [
        "user-message: How long is wing?",
        "answer: Let me see.",
        "tool: look_up wing <0.1 s",
        "answer: Four.",
    ]


async def test_a_reload_in_the_middle_shows_the_turn_whole_and_once(tab: Tab, harness: WebHarness) -> None:
    """Before the reload, in the middle of it and after the end: nothing is missing, nothing is there twice."""
    await tab.type("First")
    await tab.sees(".usage")
    gate = Gate()
    harness.script.will([ToolCall("c1", "look_up", '{"word": "a"}')], ["one two ", gate, "three"])
    await tab.type("Second")
    await tab.sees(".writing", "one two ")

    await tab.page.reload()
    await tab.sees(".writing", "one two ")
    await tab.sees("#stop")
    await tab.sees(".user-message", count=2)
    await tab.sees(".tool", count=1)

    gate.set()
    await tab.sees(".usage")
    await tab.sees(".answer", "one two three")
    whole = [
        "user-message: First",
        "answer: Yes.",
        "user-message: Second",
        "tool: look_up a <0.1 s",
        "answer: one two three",
    ]
    assert await tab.said() == whole

    await tab.page.reload()
    await tab.sees(".usage")
    assert await tab.said() == whole


async def test_stop_keeps_what_was_said(tab: Tab, harness: WebHarness) -> None:
    """The button ends the answer; the next message works as ever."""
    gate = Gate()
    harness.script.will(["The beginning", gate, " and the end"], ["Again."])
    await tab.type("Talk")
    await tab.sees(".writing", "The beginning")
    await tab.page.get_by_label("Stop the answer").click()
    await tab.sees(".notice", "Stopped.")
    await tab.sees_no("#stop")

    await tab.type("And now?")
    await tab.sees(".usage")
    assert await tab.said() == [
        "user-message: Talk",
        "answer: The beginning",
        "notice: Stopped.",
        "user-message: And now?",
        "answer: Again.",
    ]


async def test_a_message_during_a_turn_waits_and_is_then_read(tab: Tab, harness: WebHarness) -> None:
    """It is shown as queued below the answer, then takes its place in the conversation."""
    gate = Gate()
    harness.script.will(["Thinking", gate])
    await tab.type("One")
    await tab.sees(".writing")
    await tab.type("Two")
    await tab.sees(".queued .label", "Queued")
    gate.set()
    await tab.sees("#log .user-message", "Two")
    await tab.sees(".queued", count=0)
    await tab.sees(".usage", count=2)
    assert await tab.said() == [
        "user-message: One",
        "answer: Thinking",
        "user-message: Two",
        "answer: Yes.",
    ]


async def test_two_tabs_show_the_same(tab: Tab, harness: WebHarness, browser: Browser) -> None:
    """What is asked in one is answered in both."""
    await tab.type("First")
    await tab.sees(".usage")
    async with Tab.visiting(browser, harness.url) as other:
        await other.sees(".answer", "Yes.")
        await other.type("Second")
        await tab.sees(".usage", count=2)
        await other.sees(".usage", count=2)
        assert await tab.said() == await other.said()
        assert other.complaints == []


async def test_the_page_survives_a_restart_of_the_gateway(browser: Browser, tmp_path: Path) -> None:
    """It connects again by itself and shows what is stored; what was being answered and what waited is answered."""
    database, gate = tmp_path / "state.db", Gate()
    before = web_harness(tmp_path, await SqliteStore.open(database))
    async with Tab.visiting(browser) as tab:
        async with before as harness:
            harness.script.will(["Working on it", gate])
            await tab.page.goto(harness.url)
            await tab.type("Before")
            await tab.sees(".writing")
            await tab.type("Unread")
            await tab.sees(".queued[data-queued]")
        await tab.sees("#error", "Connection to Hermes lost")

        port = int(harness.url.rpartition(":")[2])
        store = await SqliteStore.open(database)
        await store.leases.expire_all()
        async with web_harness(tmp_path, store, port=port) as again:
            await again.gateway.recover("web")
            await tab.sees_no("#error")
            await tab.sees(".queued", count=0)
            await tab.type("After")
            await tab.sees(".answer", count=3)
            assert await tab.said() == [
                "user-message: Before",
                "answer: Yes.",
                "user-message: Unread",
                "answer: Yes.",
                "user-message: After",
                "answer: Yes.",
            ]


async def test_a_refused_stream_is_asked_for_again(browser: Browser, harness: WebHarness) -> None:
    """Too many pages are open: the person is told, and the page follows again once there is room."""
    await (await harness.open()).ask("Hello")
    is_stream = re.compile("/live")
    async with Tab.visiting(browser) as tab:
        await tab.page.route(is_stream, lambda route: route.fulfill(status=503, body="No."))
        await tab.page.goto(harness.url)
        await tab.sees("#error", "close some")
        await tab.page.unroute(is_stream)
        await tab.sees_no("#error")


async def test_commands_are_answered_with_a_notice(tab: Tab) -> None:
    """`/help` is a turn without the model; `/stop` overtakes and leaves nothing waiting. Both stand above their
    answer."""
    await tab.type("/help")
    await tab.sees(".notice", "/status: model, session and context engine")
    await tab.type("/stop")
    await tab.sees(".notice", "Nothing is running.")
    await tab.sees(".queued", count=0)
    parts = await tab.said()
    assert parts[-2] == "user-message: /stop" and parts[-1].startswith("notice: Nothing is running")


async def test_a_failure_is_a_visible_sentence(tab: Tab, harness: WebHarness) -> None:
    """Also after a reload."""
    harness.script.will([RateLimited()])
    await tab.type("Hello")
    await tab.sees(".failure", "limits how often it can be asked")
    await tab.page.reload()
    await tab.sees(".failure", "limits how often it can be asked")
    await tab.sees(".user-message", count=1)


async def test_a_message_that_is_too_long_is_given_back(browser: Browser, harness: WebHarness) -> None:
    """The person is told why and loses nothing."""
    async with Tab.visiting(browser, harness.url) as tab:
        await tab.type("x" * 100_001)
        await tab.sees("#error", "100 kB")
        assert len(await tab.page.locator("#text").input_value()) == 100_001
        await tab.sees(".queued", count=0)


async def test_enter_sends_and_shift_enter_breaks_the_line(tab: Tab) -> None:
    """And the field grows with what is typed."""
    field = tab.page.locator("#text")
    height = (await field.bounding_box() or {})["height"]
    await field.press_sequentially("one")
    await field.press("Shift+Enter")
    await field.press_sequentially("two")
    assert (await field.bounding_box() or {})["height"] > height
    await field.press("Enter")
    await tab.sees("#log .bubble", "one\ntwo")
    assert await field.input_value() == ""


async def test_the_reader_is_followed_only_at_the_end(tab: Tab, harness: WebHarness) -> None:
    """New text scrolls along, unless the person has scrolled up to read."""
    below = "() => (s => s.scrollHeight - s.scrollTop - s.clientHeight)(document.querySelector('#scroller'))"
    gate = Gate()
    harness.script.will(["line\n\n" * 80, gate, "more\n\n" * 40 + "the end"])
    await tab.type("Tell me")
    await tab.sees(".writing", "line")
    await tab.page.wait_for_function(f"{below} < 2")

    await tab.page.mouse.move(700, 300)
    await tab.page.mouse.wheel(0, -600)
    await tab.page.wait_for_function(f"{below} > 300")
    gate.set()
    await tab.sees(".usage")
    assert await tab.page.evaluate(below) > 300


EVIL = "<img src=x onerror='document.title=666'><script>document.title=666</script>"


async def test_markup_from_people_models_and_tools_does_nothing(tab: Tab, harness: WebHarness) -> None:
    """Typed, streamed, rendered, in a tool call, in the title, in an error; live and after a reload."""
    gate = Gate()
    harness.script.will(
        [EVIL, gate, f"\n\n[click](javascript:document.title=666) ![x](https://e.invalid/{EVIL})"],
        [ToolCall(f"c{EVIL}", "look_up", f'{{"word": "{EVIL}"}}'), ToolCall("c2", EVIL, EVIL)],
        [RateLimited(EVIL)],
    )

    async def nothing_happened() -> None:
        made = "#log img, #log script, #queue img, nav img, #log a[href^=javascript]"
        assert await tab.page.locator(made).count() == 0
        assert await tab.page.title() != "666"

    await tab.type(EVIL)
    await tab.sees(".writing", EVIL)
    await tab.type(EVIL)
    await tab.sees(".queued .bubble", EVIL)
    await nothing_happened()
    gate.set()
    await tab.sees(".failure", EVIL)
    await nothing_happened()
    await tab.page.reload()
    await tab.sees(".failure", EVIL)
    await tab.page.locator(".tool summary").first.click()
    await tab.sees(".tool[open] pre", EVIL)
    await nothing_happened()
