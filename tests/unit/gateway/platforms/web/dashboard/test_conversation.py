"""One conversation: its messages by all authors, and the borders between its sessions."""

from __future__ import annotations

import re

import pytest

from agent.messages import Message
from agent.store import Compaction, Split
from tests.support.dashboard_conversations import PAGES, long_chat, opened, said, tool_call
from tests.support.dashboard_harness import DashboardHarness
from tests.support.gateways import Gate
from tests.support.web_harness import Events


async def test_what_was_said_on_another_platform(dashboard: DashboardHarness) -> None:
    """By another person than the owner; the model's Markdown is rendered, the person's is not."""
    conversation = await opened(dashboard.store, "9", platform="telegram", person="telegram:9")
    await said(dashboard.store, conversation, "**Ahoy**", "**Hello**")
    page = await dashboard.page(f"{PAGES}/{conversation.id}")
    assert "**Ahoy**" in page and "<strong>Hello</strong>" in page
    assert "<strong>telegram:9</strong>" in page and "<strong>Hermes</strong>" in page


async def test_a_tool_call_is_folded_with_its_result(dashboard: DashboardHarness) -> None:
    """One closed fold; the result is not a separate message."""
    chat = await long_chat(dashboard, exchanges=1)
    page = await dashboard.page(chat.page)
    fold = re.search(r"<details class=\"tool\" id=\"msg_\w+-0\".*?</details>", page, re.S)
    assert fold and "wing: a word of 4 letters" in fold[0] and " open" not in fold[0]
    assert page.count('<article class="message') == 2 + 3


async def test_a_picture_is_mentioned(dashboard: DashboardHarness) -> None:
    """It is not shown, but a message without it would read oddly."""
    conversation = await opened(dashboard.store)
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    message = Message("user", "Look", parts=({"type": "text", "text": "Look"}, picture))
    await dashboard.store.sessions.append(conversation.live_session_id, [message])
    page = await dashboard.page(f"{PAGES}/{conversation.id}")
    assert "With an image" in page and "base64" not in page


async def test_secrets_are_left_out(dashboard: DashboardHarness) -> None:
    """Of what people wrote, of arguments and of results: others look at it here."""
    key = "sk-ant-api03-" + "A1b2C3d4" * 8
    conversation = await opened(dashboard.store)
    await said(dashboard.store, conversation, f"My key is {key}", f"Your key is {key}")
    await dashboard.store.sessions.append(conversation.live_session_id, tool_call(f"api_key={key}", word=key))
    page = await dashboard.page(f"{PAGES}/{conversation.id}")
    # With both titles, and what the folded call shows of its argument.
    assert key not in page and page.count("[redacted]") == 3 + 2 + 2
    for path in (PAGES, f"{PAGES}?q=key"):
        assert key not in await dashboard.page(path)


async def test_half_a_secret_is_left_out_as_well(dashboard: DashboardHarness) -> None:
    """Where a long text is cut: what is left of a key there looks like none."""
    key = "sk-ant-api03-" + "A1b2C3d4" * 8
    conversation = await opened(dashboard.store)
    await said(dashboard.store, conversation, "word " * 3_998 + key + " and more" * 9)
    page = await dashboard.page(f"{PAGES}/{conversation.id}")
    assert "more characters" in page and key[:6] not in page


@pytest.mark.parametrize("characters", [20_001, 20_010, 30_000])
async def test_a_long_result_is_truncated_once(dashboard: DashboardHarness, characters: int) -> None:
    """The page tells how many characters of the stored result are missing."""
    conversation = await opened(dashboard.store)
    await dashboard.store.sessions.append(conversation.live_session_id, tool_call("x" * characters))
    page = await dashboard.page(f"{PAGES}/{conversation.id}")
    assert re.findall(r"… ([\d,]+) more characters", page) == [f"{characters - 20_000:,}"]


async def test_the_border_between_two_sessions(dashboard: DashboardHarness) -> None:
    """Why, from how much to how much, and a link to what left; also while nothing has been said since."""
    chat = await long_chat(dashboard)
    await chat.compress("tides")
    border = (await dashboard.page(chat.page)).partition('class="session-boundary"')[2]
    assert (
        "Compacted on request" in border and "60,500 → 33,188 tokens" in border and "topic: tides" in border
    )
    assert f"{chat.page}/splits/{await chat.live()}" in border
    await said(dashboard.store, await dashboard.store.sessions.conversation(chat.id), "After it")
    page = await dashboard.page(chat.page)
    assert page.index('class="session-boundary"') < page.index("After it")


async def test_a_long_one_has_pages(dashboard: DashboardHarness) -> None:
    """The newest first to be seen; a call and its result stay together at the seam."""
    conversation = await opened(dashboard.store)
    texts = [f"Number {number}." for number in range(1, 99)]
    await said(dashboard.store, conversation, *texts)
    await dashboard.store.sessions.append(
        conversation.live_session_id, tool_call()
    )  # 99 to 102, the result is 101
    await said(dashboard.store, conversation, *(f"Later {number}." for number in range(60)))
    newest = await dashboard.page(f"{PAGES}/{conversation.id}")
    assert "63 to 162 of 162" in newest and "Later 59." in newest and "Number 62." not in newest
    first = await dashboard.page(f"{PAGES}/{conversation.id}?from=1")
    assert "1 to 100 of 162" in first and "a word of 4 letters" in first
    second = await dashboard.page(f"{PAGES}/{conversation.id}?from=101")
    assert "Four letters." in second and "a word of 4 letters" not in second


async def test_a_message_in_a_line_that_was_left_behind(dashboard: DashboardHarness) -> None:
    """The link leads to it all the same, and says so."""
    chat = await long_chat(dashboard, exchanges=2)
    first = await chat.live()
    branch = await dashboard.store.sessions.split(Split(first, "branch", [], "Prompt."))
    [left] = await dashboard.store.sessions.append(branch.id, [Message("user", "Down the other road")])
    await dashboard.store.sessions.make_live(first, instead_of=branch.id)
    assert "the other road" not in await dashboard.page(chat.page)
    page = await dashboard.page(f"{chat.page}?message={left.id}")
    assert "the other road" in page and "up to session 2." in page and "Branched or rewound" in page


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("?from=0", 400),
        ("?from=x", 400),
        ("?from=9999", 404),
        ("?session=ses_forged", 404),
        ("?message=msg_forged", 404),
        ("?message=" + "m" * 101, 400),
        ("/splits/ses_forged", 404),
        ("/context?unfold=x", 400),
        ("/live?from=x", 400),
        ("/nothing", 404),
    ],
)
async def test_forged_addresses(dashboard: DashboardHarness, query: str, status: int) -> None:
    """Each is answered with a page that says so."""
    chat = await long_chat(dashboard, exchanges=1)
    found, page = await dashboard.get(chat.page + query)
    assert found == status and '<body class="error-page">' in page


@pytest.mark.parametrize("path", ["", "/context", "/live", "/splits/ses_x"])
async def test_a_forged_conversation(dashboard: DashboardHarness, path: str) -> None:
    """There is nothing there, whatever follows it."""
    for forged in ("conv_forged", "%3Cscript%3E", "a" * 2_000, "..%2F..%2Fetc"):
        assert (await dashboard.get(f"{PAGES}/{forged}{path}"))[0] == 404


async def test_nobody_elses_session(dashboard: DashboardHarness) -> None:
    """An id of another conversation is not from here."""
    chat = await long_chat(dashboard, exchanges=1)
    other = await opened(dashboard.store, "other")
    [message] = await said(dashboard.store, other, "Elsewhere")
    for query in (
        f"?session={other.live_session_id}",
        f"?message={message.id}",
        f"/splits/{other.live_session_id}",
    ):
        assert (await dashboard.get(chat.page + query))[0] == 404


async def test_an_open_page_learns_what_is_said(dashboard: DashboardHarness) -> None:
    """While a turn runs, that it does; then the answer. What has not changed is not sent again."""
    chat = await long_chat(dashboard, exchanges=1)
    gate = Gate()
    dashboard.script.will([gate, "There you are."])
    async with dashboard.http.get(f"{dashboard.url}{chat.page}/live") as response:
        events = Events(response)
        assert "Hermes is answering" not in (await events.next())["html"]
        await (await dashboard.open("desk")).send("Where?")
        await gate.reached.wait()
        assert "Hermes is answering" in (await events.next())["html"]
        gate.set()
        assert "There you are." in await _until(events, "There you are.")


async def _until(events: Events, text: str) -> str:
    while text not in (html := str((await events.next())["html"])):
        pass
    return html


async def test_the_summary_beside_what_it_replaced(dashboard: DashboardHarness) -> None:
    """With how much each comes to; what stayed is on neither side."""
    chat = await long_chat(dashboard)
    await chat.compress()
    split = f"{chat.page}/splits/{await chat.live()}"
    page = await dashboard.page(split)
    left, _, right = page.partition('id="replaced"')
    assert (
        "<strong>lighthouse</strong>" in left and "Kept verbatim" in left and "47 messages unchanged" in left
    )
    assert re.search(r"37 messages, about 11,\d\d\d tokens", right) and "Question 1 about" in right
    assert "Question 0 about the lighthouse. The keeper wants" not in right.partition("transcript")[2]
    assert "Four letters." not in right


async def test_what_was_replaced_has_pages(dashboard: DashboardHarness) -> None:
    """Fifty on each; beyond the last there is nothing."""
    chat = await long_chat(dashboard, exchanges=70)
    await chat.compress()
    split = f"{chat.page}/splits/{await chat.live()}"
    first = await dashboard.page(split)
    assert "1 to 50 of 97" in first
    assert "51 to 97 of 97" in await dashboard.page(f"{split}?from=51")
    status, page = await dashboard.get(f"{split}?from=98")
    assert status == 404 and "This compaction replaced only 97 messages." in page


async def test_what_was_only_shortened_is_beside_what_it_was(dashboard: DashboardHarness) -> None:
    """A compaction that wrote no summary is not said to have one."""
    conversation = await opened(dashboard.store)
    live = conversation.live_session_id
    asked, called, result, answer = await dashboard.store.sessions.append(
        live, tool_call("a very long result")
    )
    short = Message(
        "tool", "[shortened]", tool_call_id="c1", name="look_up", kind="pruned", source_id=result.id
    )
    done = Compaction("loop", "compressor", 4, 4, 9_000, 2_000)
    child = await dashboard.store.sessions.split(
        Split(live, "compression", [asked.id, called.id, short, answer.id], "Prompt.", compaction=done)
    )
    page = f"{PAGES}/{conversation.id}"
    context = await dashboard.page(f"{page}/context")
    assert "Shortened and removed messages" in context and "Summary and replaced messages" not in context
    _, _, shortened = (await dashboard.page(f"{page}/splits/{child.id}")).partition('id="shortened"')
    assert (
        shortened.index("[shortened]") < shortened.index("Original") < shortened.index("a very long result")
    )


async def test_a_reset_has_no_summary(dashboard: DashboardHarness) -> None:
    """All of it left the context, and the page says so."""
    chat = await long_chat(dashboard, exchanges=2)
    dashboard.script.will("Nothing to note.")
    await (await dashboard.open("desk")).ask("/reset")
    page = await dashboard.page(f"{chat.page}/splits/{await chat.live()}")
    assert "Reset: started" in page and "No summary was written." in page and "8 messages, about" in page


async def test_a_stream_whose_place_is_gone(dashboard: DashboardHarness) -> None:
    """Somebody went back to a session in which less was said: it ends in good order, and then the address says why."""
    conversation = await opened(dashboard.store)
    first = conversation.live_session_id
    await said(dashboard.store, conversation, "One", "Two")
    branch = await dashboard.store.sessions.split(Split(first, "branch", [], "Prompt."))
    await said(dashboard.store, conversation, "Three")
    path = f"{PAGES}/{conversation.id}/live?from=3"
    async with dashboard.http.get(dashboard.url + path) as response:
        events = Events(response)
        assert "Three" in (await events.next())["html"]
        await dashboard.store.sessions.make_live(first, instead_of=branch.id)
        with pytest.raises(EOFError):
            await events.next()
    status, told = await dashboard.get(path)
    assert status == 404 and "only 2 messages" in told
