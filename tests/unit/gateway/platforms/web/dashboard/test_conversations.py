"""The list of all conversations, and the search in them."""

from __future__ import annotations

import re
import time

import pytest

from gateway.access import Pairing
from gateway.types import OWNER, Author
from tests.support.dashboard_conversations import PAGES, compacted_often, long_chat, opened, said
from tests.support.dashboard_harness import READER, SCRIPT, DashboardHarness, bearer, running_dashboard


def titles(page: str) -> list[str]:
    return re.findall(r'<a href="/dashboard/conversations/conv_\w+">([^<]*)</a>', page)


async def three(dashboard: DashboardHarness) -> None:
    for number, (platform, person) in enumerate(
        [("web", OWNER), ("telegram", "telegram:4711"), ("discord", "discord:12")]
    ):
        conversation = await opened(dashboard.store, f"c{number}", platform=platform, person=person)
        await said(dashboard.store, conversation, f"Hello from {platform}", "A boat is a **vessel**.")


async def test_all_are_listed(dashboard: DashboardHarness) -> None:
    """The newest first, of every person and platform; not one in which nothing was said."""
    await three(dashboard)
    await opened(dashboard.store, "empty")
    page = await dashboard.page(PAGES)
    assert titles(page) == ["Hello from discord", "Hello from telegram", "Hello from web"]
    assert "telegram:4711" in page


async def test_what_each_line_says(dashboard: DashboardHarness) -> None:
    """Messages, sessions, tokens in the window, cost."""
    await long_chat(dashboard)
    row = re.sub(r"<[^>]+>|\s+", " ", (await dashboard.page(PAGES)).partition("<tbody>")[2])
    assert re.search(r"web +owner +84 +1 +60,500 +\$0\.0800", row), row


async def test_only_one_platform_or_person(dashboard: DashboardHarness) -> None:
    """The address keeps what was chosen."""
    await three(dashboard)
    assert titles(await dashboard.page(f"{PAGES}?platform=telegram")) == ["Hello from telegram"]
    page = await dashboard.page(f"{PAGES}?person=discord:12")
    assert titles(page) == ["Hello from discord"]
    assert '<option value="discord:12" selected>' in page
    assert "No conversations match." in await dashboard.page(f"{PAGES}?platform=telegram&person=discord:12")


async def test_a_name_instead_of_a_number(dashboard: DashboardHarness) -> None:
    """Where the person was let in under one."""
    await three(dashboard)
    await Pairing(dashboard.store.access).request("telegram", Author("4711", "Anna <b>"))
    await dashboard.store.access.approve_person("telegram", "4711", by=OWNER, now=time.time())
    page = await dashboard.page(PAGES)
    assert "Anna &lt;b&gt; (telegram:4711)" in page and "<b>" not in page


async def test_words_are_found_wherever_they_were_said(dashboard: DashboardHarness) -> None:
    """In an ancestor session, by any author; highlighted, with a link to the message."""
    await three(dashboard)
    chat = await long_chat(dashboard)
    await chat.compress()
    hit = await dashboard.page(f"{PAGES}?q=lighthouse+question+17")
    assert "<mark>17</mark>" in hit
    found = re.findall(rf'<a href="({chat.page}\?message=(msg_\w+))#', hit)
    address, message_id = found[0]
    shown = await dashboard.page(address)
    assert f'class="message linked" id="{message_id}"' in shown and "Question 17 about" in shown


async def test_a_search_in_one_platform(dashboard: DashboardHarness) -> None:
    """Only matches of this person."""
    await three(dashboard)
    assert (await dashboard.page(f"{PAGES}?q=vessel")).count("<mark>") == 3
    page = await dashboard.page(f"{PAGES}?q=vessel&platform=telegram")
    assert page.count("<mark>") == 1 and "Hello from telegram" in page
    assert "No message contains these words" in await dashboard.page(f"{PAGES}?q=vessel&person=nobody")


async def test_pages(dashboard: DashboardHarness) -> None:
    """Fifty on each; what was chosen stays."""
    for number in range(51):
        await said(dashboard.store, await opened(dashboard.store, f"n{number}"), f"Number {number}")
    first = await dashboard.page(f"{PAGES}?platform=web")
    assert len(titles(first)) == 50 and "Page 1 of 2, 51 conversations" in first
    assert "platform=web&amp;page=2" in first
    assert titles(await dashboard.page(f"{PAGES}?platform=web&page=2")) == ["Number 0"]


@pytest.mark.parametrize(
    ("query", "status", "sentence"),
    [
        ("page=0", 400, "must be a whole number"),
        ("page=-1", 400, "must be a whole number"),
        ("page=x", 400, "must be a whole number"),
        ("page=99999999999999999999999", 400, "must be a whole number"),
        ("page=7", 404, "There is no page 7; the last one is 1."),
        ("q=" + "a" * 501, 400, "at most 500 characters"),
        ("person=" + "a" * 301, 400, "at most 300 characters"),
    ],
)
async def test_addresses_that_cannot_be_meant(
    dashboard: DashboardHarness, query: str, status: int, sentence: str
) -> None:
    """A sentence, and the right status."""
    found, page = await dashboard.get(f"{PAGES}?{query}")
    assert (found, sentence in page) == (status, True), page


@pytest.mark.parametrize(
    "query", ['"', "* OR NEAR(", "said:x", "\x00\x02\x03", "' OR 1=1 --", "%", "é" * 400, "a " * 249]
)
async def test_any_words_can_be_asked_for(dashboard: DashboardHarness, query: str) -> None:
    """No input is a query of its own kind."""
    await three(dashboard)
    status, page = await dashboard.get(PAGES, params={"q": query})
    assert status == 200 and "SQL" not in page


async def test_markup_is_text(dashboard: DashboardHarness) -> None:
    """In titles, snippets, names, platforms and the words that were asked for."""
    conversation = await opened(dashboard.store, SCRIPT, platform=SCRIPT, person=SCRIPT)
    await said(dashboard.store, conversation, f"{SCRIPT} needle", f"{SCRIPT} answer")
    for path in (PAGES, f"{PAGES}/{conversation.id}", f"{PAGES}/{conversation.id}/context"):
        page = await dashboard.page(path)
        assert "<script>alert" not in page and "<img src=x" not in page, path
        assert "&lt;script&gt;" in page
    _, found = await dashboard.get(PAGES, params={"q": f"needle {SCRIPT}"})
    assert "<mark>needle</mark>" in found and "<script>alert" not in found


async def test_a_reader_sees_them_and_no_button(tmp_path_factory: pytest.TempPathFactory) -> None:
    """With the token that may only look."""
    async with running_dashboard(tmp_path_factory.mktemp("dashboard"), guarded=True) as dashboard:
        chat = await long_chat(dashboard)
        await chat.compress()
        for path in (PAGES, chat.page, f"{chat.page}/context", f"{chat.page}/splits/{await chat.live()}"):
            status, page = await dashboard.get(path, headers=bearer(READER))
            assert status == 200 and "data-post" not in page, path
            assert (await dashboard.get(path, headers=bearer("wrong")))[0] == 401
        for verb in ("compress", "restore"):
            assert (await dashboard.post(f"{chat.api}/{verb}", {}, headers=bearer(READER)))[0] == 403


async def test_a_conversation_of_many_sessions(dashboard: DashboardHarness) -> None:
    """Its line counts them, and no page of it grows with them."""
    long = await compacted_often(dashboard.store, 300)
    assert ">301<" in await dashboard.page(PAGES)
    assert len(await dashboard.page(f"{PAGES}/{long.id}")) < 20_000
    context = await dashboard.page(f"{PAGES}/{long.id}/context")
    assert context.count('class="track"') < 20 and "288 more sessions." in context
    assert "the newest 100 sessions" in context and "And 200 earlier sessions." in context
    assert "The newest" not in await dashboard.page(f"{PAGES}/{long.id}/context?chart=all")
    unfolded = await dashboard.page(f"{PAGES}/{long.id}/context?unfold=4")
    assert "Session 103<" in unfolded and "188 more sessions." in unfolded
