"""The pages as a browser without JavaScript gets them, and the updates a page with JavaScript draws."""

from __future__ import annotations

from pathlib import Path

from agent.errors import RateLimited
from agent.messages import Message, ToolCall
from agent.store import Address
from gateway.types import OWNER
from tests.support.gateways import Gate
from tests.support.web_harness import Chat, WebHarness, web_harness

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"


async def test_home_is_a_new_chat_at_first(harness: WebHarness) -> None:
    """Nothing was said yet: the person can begin at once."""
    status, page = await harness.get("/")
    assert status == 200
    assert 'data-conversation=""' in page
    assert "What is on your mind?" in page


async def test_home_is_the_latest_web_conversation(harness: WebHarness) -> None:
    """Not the terminal's, though that is newer, and not the older one."""
    older, newer, terminal = (
        await harness.open("a"),
        await harness.open("b"),
        await harness.open("c", "terminal"),
    )
    for chat in (older, newer, terminal):
        await chat.ask("hello")
    async with harness.http.get(harness.url + "/") as response:
        assert response.url.path == f"/c/{newer.id}"


async def test_a_conversation_is_readable_without_javascript(harness: WebHarness, chat: Chat) -> None:
    """Question, Markdown, tool call and answer are in the page itself."""
    harness.script.will(
        ["Let me **see**.", ToolCall("c1", "look_up", '{"word": "wing"}')], ["It is `short`."]
    )
    await chat.ask("What is a wing?")

    _, page = await harness.get(f"/c/{chat.id}")
    for part in (
        '<div class="bubble">What is a wing?</div>',
        "<p>Let me <strong>see</strong>.</p>",
        "<code>look_up</code>",
        "wing: a word of 4 letters",
        "<p>It is <code>short</code>.</p>",
        "<title>What is a wing? · Hermes</title>",
    ):
        assert part in page
    assert page.index("look_up") < page.index("It is")


async def test_the_sidebar_lists_the_conversations(harness: WebHarness) -> None:
    """With their titles, the open one marked, the terminal's named as such."""
    first, second = await harness.open("a"), await harness.open("b", "terminal")
    await first.ask("First question")
    await second.ask("Second question")

    _, page = await harness.get(f"/c/{first.id}")
    assert f'href="/c/{first.id}" aria-current="page"' in page
    assert f'href="/c/{second.id}">' in page
    assert "terminal ·" in page


async def test_everything_people_models_and_tools_say_is_escaped(harness: WebHarness, chat: Chat) -> None:
    """In the text, the title, tool names, arguments and results; in the page and in its updates."""
    harness.script.will(
        [EVIL, ToolCall(f'c"{EVIL}', "look_up", f'{{"word": "{EVIL}"}}'), ToolCall("c2", EVIL, EVIL)], [EVIL]
    )
    await chat.ask(EVIL)

    _, page = await harness.get(f"/c/{chat.id}")
    assert "<img src=x" not in page
    assert "<script>alert" not in page
    async with chat.watch(f"/c/{chat.id}/live") as updates:
        for update in await updates.until("end_turn"):
            assert "<img src=x" not in update.get("html", "")
            assert "<script>alert" not in update.get("html", "")


async def test_the_model_line_is_shown_when_there_is_one(tmp_path: Path, harness: WebHarness) -> None:
    """An honest word about the embedded model, with its command as code."""
    async with web_harness(tmp_path, model_line="A <small> model; see `hermes setup`.") as told:
        _, page = await told.get("/new")
        assert "A &lt;small&gt; model; see <code>hermes setup</code>." in page
    _, page = await harness.get("/new")
    assert 'fineprint">A' not in page


async def test_long_conversations_show_their_newest_turns(harness: WebHarness) -> None:
    """Whole turns, a way to the earlier ones, and a turn longer than the page is shown whole."""
    conversation = await harness.store.sessions.open_conversation(Address("web", "long"), person=OWNER)
    calls = [Message("tool", f"result {n}", tool_call_id=f"c{n}", name="look_up") for n in range(30)]
    asked = Message("assistant", "", tool_calls=tuple(ToolCall(f"c{n}", "look_up", "{}") for n in range(30)))
    for message in (
        Message("user", "old"),
        Message("assistant", "yes"),
        Message("user", "long"),
        asked,
        *calls,
    ):
        await harness.store.sessions.append(conversation.live_session_id, [message])

    _, newest = await harness.get(f"/c/{conversation.id}?limit=33")
    assert (newest.count('class="user-message"'), newest.count('class="tool"')) == (1, 30)
    assert "?limit=165" in newest
    _, inside_a_turn = await harness.get(f"/c/{conversation.id}?limit=5")
    assert (inside_a_turn.count('class="user-message"'), "?limit=" in inside_a_turn) == (2, False)


async def test_unknown_pages_are_a_page_with_a_way_back(harness: WebHarness) -> None:
    """Also for conversations that are not the owner's."""
    other = await harness.store.sessions.open_conversation(Address("telegram", "1"), person=OWNER)
    for path in ("/nothing", "/c/nope", "/c/nope/live", f"/c/{other.id}", f"/c/{other.id}/live"):
        status, page = await harness.get(path)
        assert status == 404, path
        assert 'href="/"' in page


async def test_a_page_gets_the_stored_part_then_the_running_turn(harness: WebHarness, chat: Chat) -> None:
    """What a reload in the middle of an answer shows: everything, and the running turn from its beginning."""
    await chat.ask("earlier")
    gate = Gate()
    harness.script.will(["half ", gate, "whole"])
    message_id = await chat.send("now")
    await gate.reached.wait()

    async with chat.watch(f"/c/{chat.id}/live") as updates:
        snapshot, turn, _sidebar, text = [await updates.next() for _ in range(4)]
        assert (snapshot["op"], "earlier" in snapshot["html"]) == ("snapshot", True)
        assert (turn["op"], turn["id"]) == ("start_turn", message_id)
        assert text == {"op": "append_text", "text": "half "}
        gate.set()
        rest = await updates.until("end_turn")
    settled = next(update for update in rest if update["op"] == "finish_text")
    assert "<p>half whole</p>" in settled["html"]


async def test_a_page_that_comes_later_sees_what_waits(harness: WebHarness, chat: Chat) -> None:
    """Also after a restart, when nothing was told about it: it must not look lost."""
    gate = Gate()
    harness.script.will(["half ", gate, "whole"])
    await chat.send("now")
    await gate.reached.wait()
    waiting = await chat.send("and then?")
    async with chat.watch(f"/c/{chat.id}/live") as updates:
        _snapshot, shown = [await updates.next() for _ in range(2)]
        assert (shown["op"], shown["id"], "and then?" in shown["html"]) == ("queued", waiting, True)
        gate.set()
        await updates.until("end_turn")


async def test_a_failed_turn_is_still_told_after_a_reload(harness: WebHarness, chat: Chat) -> None:
    """The error is not stored, but a page that comes later should not show a question without a word."""
    harness.script.will([RateLimited()])
    await chat.ask("hello")
    async with chat.watch(f"/c/{chat.id}/live") as updates:
        failure = (await updates.until("end_turn"))[-2]
    assert "limits how often" in failure["html"]


async def test_usage_is_the_sum_of_the_turn(harness: WebHarness, chat: Chat) -> None:
    """Two model calls, one line."""
    harness.script.will([ToolCall("c1", "look_up", '{"word": "a"}')], ["Done."])
    reports = [event["usage"] for event in await chat.ask("go") if event["type"] == "UsageReported"]
    async with chat.watch(f"/c/{chat.id}/live") as updates:
        usage = (await updates.until("end_turn"))[-2]["html"]
    assert len(reports) == 2
    assert f"{sum(each['prompt_tokens'] for each in reports):,} tokens in" in usage
    assert f"{sum(each['completion_tokens'] for each in reports):,} out" in usage


async def test_a_stopped_tool_does_not_seem_to_run_for_ever(harness: WebHarness, chat: Chat) -> None:
    """A call without a result is marked as such: live, and from the store."""
    conversation = await harness.store.sessions.conversation(chat.id)
    abandoned = Message("assistant", "", tool_calls=(ToolCall("c1", "look_up", "{}"),))
    await harness.store.sessions.append(conversation.live_session_id, [Message("user", "go"), abandoned])
    _, page = await harness.get(f"/c/{chat.id}")
    assert 'data-state="abandoned"' in page
    assert 'data-state="running"' not in page
