"""The chart of the window, the family tree, and the buttons beside them."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest
from markupsafe import Markup

from agent.errors import AuthenticationFailed
from agent.llm import Usage
from agent.messages import Message
from agent.store import Address, Compaction, Split
from gateway.config.schema import Config
from gateway.core.inbox_codec import encode, encode_command, inbox_id
from gateway.platforms.web.dashboard.context_window import (
    ContextWindow,
    Limit,
    downsample,
    render_context_chart,
    session_segments,
)
from gateway.platforms.web.dashboard.session_graph import build_session_graph
from gateway.store.ports import InboxMessage
from gateway.store.reports import ContextSample, SessionInfo
from gateway.types import OWNER, Author, ChatMessage, CommandCall, InboundMessage, Place
from tests.support.dashboard_bots import ANNA, running_bot
from tests.support.dashboard_conversations import API, PAGES, LongChat, long_chat, opened, said
from tests.support.dashboard_harness import DashboardHarness, running_dashboard
from tests.support.gateways import Gate

WINDOW = ContextWindow(
    "m", 100_000, [Limit(85_000, 0.85, "session hygiene"), Limit(50_000, 0.5, "compressor")]
)


def session(session_id: str, parent_id: str | None = None) -> SessionInfo:
    return SessionInfo(session_id, parent_id, "branch" if parent_id else None, 0.0, "", "", None, 1, None)


def compacted(session_id: str, parent_id: str) -> SessionInfo:
    done = Compaction("loop", "compressor", 20, 8, 50_000, 20_000)
    return replace(session(session_id, parent_id), reason="compression", compaction=done)


def picture_of(tokens: list[int]) -> Markup:
    calls = [ContextSample("a", float(at), each) for at, each in enumerate(tokens)]
    return render_context_chart(session_segments([session("a")], ["a"], calls), WINDOW)


def test_peaks_are_never_left_out() -> None:
    """However few points are drawn; nor are both ends."""
    calls = [(at, 10) for at in range(10_000)]
    calls[4_321], calls[7_000] = (4_321, 999), (7_000, 1)
    kept = downsample(calls, 100)
    assert len(kept) <= 102 and kept == sorted(kept)
    assert {calls[0], calls[4_321], calls[7_000], calls[-1]} <= set(kept)


def test_a_chart_of_many_calls_is_no_larger_than_one_of_a_thousand() -> None:
    """It is thinned, and its highest point is still as high."""
    tokens = [1_000 + at % 7 for at in range(20_000)]
    tokens[12_345] = 90_000
    picture = picture_of(tokens)
    curve = re.search(r'<path d="([^"]*)" class="curve"', picture)
    assert curve and curve[1].count("L") <= 1_010
    assert "at most 90,000 tokens" in picture


def test_many_drops_stay_readable() -> None:
    """All are drawn; only a few have a number, and a thousand have not even a dot."""
    for times, dots, numbers in ((12, 12, 12), (100, 100, 0), (1_000, 0, 0)):
        line = [session("s0"), *(compacted(f"s{at}", f"s{at - 1}") for at in range(1, times + 1))]
        calls = [ContextSample(each.id, 0.0, 20_000) for each in line]
        picture = render_context_chart(session_segments(line, [each.id for each in line], calls), WINDOW)
        drops = re.search(r'<path d="([^"]*)" class="drop"', picture)
        assert drops and drops[1].count("V") == times
        assert (picture.count("<circle"), picture.count('<text x="') - 4) == (dots, numbers)


def test_a_call_that_is_alone_in_its_session_is_drawn() -> None:
    """As a step as wide as its place: a point alone would be nothing."""
    line = [session("s0"), *(session(f"s{at}", f"s{at - 1}") for at in range(1, 5))]
    calls = [ContextSample(each.id, 0.0, 20_000) for each in line]
    picture = render_context_chart(session_segments(line, [each.id for each in line], calls), WINDOW)
    curve = re.search(r'<path d="([^"]*)" class="curve"', picture)
    assert curve
    steps = re.findall(r"M([\d.]+),[\d.]+L([\d.]+),[\d.]+", curve[1])
    assert len(steps) == 5 and all(float(end) - float(begin) >= 80 for begin, end in steps)


def test_a_curve_is_broken_where_it_begins_anew() -> None:
    """Nothing leads from the end of a session to the one after a reset."""
    line = [session("a"), session("b", "a")]
    calls = [ContextSample("a", 0.0, 900), ContextSample("b", 1.0, 100)]
    curve = re.search(
        r'<path d="([^"]*)" class="curve"',
        render_context_chart(session_segments(line, ["a", "b"], calls), WINDOW),
    )
    assert curve and curve[1].count("M") == 2


@pytest.mark.parametrize("tokens", [[5], [5, 5], [0, 200_000]])
def test_small_charts(tokens: list[int]) -> None:
    """One call, two alike, and more than the window holds."""
    assert "NaN" not in picture_of(tokens) and 'role="img"' in picture_of(tokens)


def test_the_tree_of_a_family() -> None:
    """The line to the live session is straight, what left it is beside it, and every track is drawn to its end."""
    sessions = [session("a"), session("b", "a"), session("x", "a"), session("y", "x"), session("c", "b")]
    shown = build_session_graph(sessions, "c", unfolded_from=None)
    assert [node.session and node.session.id for node in shown.nodes] == ["a", "x", "y", "b", "c"]
    assert [node.is_ancestor for node in shown.nodes] == [True, False, False, True, False]
    assert shown.tracks == 2 and [node.is_live for node in shown.nodes] == [False] * 4 + [True]
    assert (
        all('y2="100%"' in node.track for node in shown.nodes[:-1])
        and 'y2="100%"' not in shown.nodes[-1].track
    )


async def test_where_the_lines_are_is_said(dashboard: DashboardHarness) -> None:
    """Of the model that answers, and by which setting."""
    chat = await long_chat(dashboard)
    page = await dashboard.page(f"{chat.page}/context")
    assert "50% · 64,000 · compressor" in page and "85% · 108,800 · session hygiene" in page
    assert "<code>compression.threshold</code>" in page


async def test_another_threshold(tmp_path: Path) -> None:
    """As long as no engine is at work yet, the configuration tells."""
    config = Config.model_validate({"compression": {"threshold": 0.25}})
    async with running_dashboard(tmp_path, config=config) as dashboard:
        chat = await long_chat(dashboard, exchanges=1)
        assert "25% · 32,000 · compressor" in await dashboard.page(f"{chat.page}/context")


async def test_a_drop_and_its_figures(dashboard: DashboardHarness) -> None:
    """In the picture and in the table."""
    chat = await long_chat(dashboard)
    await chat.compress()
    await dashboard.store.sessions.record_usage(await chat.live(), Usage(34_000, 5), model="m")
    page = await dashboard.page(f"{chat.page}/context")
    assert re.search(r'<path d="M[\d.]+,[\d.]+V[\d.]+" class="drop"', page)
    assert "Compacted on request. 60,500 to 33,188 tokens." in page
    figures = re.sub(r"<[^>]+>|\s+", " ", page.partition('id="figures"')[2].partition("</details>")[0])
    assert re.search(r"Compacted on request +60,500 +33,188 +1 +34,000 +34,000", figures), figures


async def test_nothing_was_reported(dashboard: DashboardHarness) -> None:
    """No chart, and a sentence instead."""
    conversation = await opened(dashboard.store)
    await said(dashboard.store, conversation, "Hello")
    page = await dashboard.page(f"{PAGES}/{conversation.id}/context")
    assert (
        "has reported the size of the context" in page
        and "<figure" not in page
        and "One session so far" in page
    )


async def test_back_to_the_first_session(dashboard: DashboardHarness) -> None:
    """Its whole context is live again with what was said since, and the tree shows the branch."""
    chat = await long_chat(dashboard)
    await chat.compress()
    first = (await dashboard.store.sessions.sessions(chat.id))[0].id
    await dashboard.store.sessions.append(await chat.live(), [Message("user", "Since then")])
    assert (await chat.restore(first)).startswith("Restored: 49 -> 85 messages")
    history = await dashboard.store.sessions.history(await chat.live())
    assert len(history) == 85 and history[-1].content == "Since then"
    assert "Branched or rewound" in await dashboard.page(f"{chat.page}/context")


async def test_what_cannot_be_restored(dashboard: DashboardHarness) -> None:
    """Each with a sentence, and nothing is changed."""
    chat = await long_chat(dashboard)
    await chat.compress()
    first, live = [each.id for each in await dashboard.store.sessions.sessions(chat.id)]
    beside = (await dashboard.store.sessions.split(Split(live, "branch", [], "Prompt."))).id
    await dashboard.store.sessions.make_live(live, instead_of=beside)
    for body, status, sentence in (
        ({"session": live, "instead_of": live}, 409, "already live"),
        ({"session": first, "instead_of": first}, 409, "Reload the page"),
        ({"session": "ses_forged", "instead_of": live}, 404, "no such session"),
        ({"session": beside, "instead_of": live}, 409, "not an ancestor"),
        ({"session": 7, "instead_of": live}, 400, "must be a string"),
        ({}, 409, "Reload the page"),
        ([], 400, "JSON object"),
    ):
        found, answer = await dashboard.post(f"{chat.api}/restore", body)
        assert (found, sentence in answer["error"]) == (status, True), answer
    assert await chat.live() == live


async def test_a_context_that_is_smaller_is_not_gone_back_to(dashboard: DashboardHarness) -> None:
    """The command's own refusal comes back as it is."""
    chat = await long_chat(dashboard)
    await chat.compress()
    small = await chat.live()
    await dashboard.store.sessions.append(small, [Message("user", "Since then")])
    first = (await dashboard.store.sessions.sessions(chat.id))[0].id
    await chat.restore(first)
    status, answer = await dashboard.post(
        f"{chat.api}/restore", {"session": small, "instead_of": await chat.live()}
    )
    assert status == 409 and "which is smaller" in answer["error"], answer


async def test_nothing_is_restored_under_a_running_turn(dashboard: DashboardHarness) -> None:
    """It would change the context of the running answer."""
    chat = await long_chat(dashboard)
    await chat.compress()
    first, live = [each.id for each in await dashboard.store.sessions.sessions(chat.id)]
    gate = Gate()
    dashboard.script.will([gate, "Done."])
    await (await dashboard.open("desk")).send("Go on")
    await gate.reached.wait()
    status, answer = await dashboard.post(f"{chat.api}/restore", {"session": first, "instead_of": live})
    assert status == 409 and "Hermes is answering" in answer["error"]
    gate.set()


async def test_compress_waits_for_the_turn_before_it(dashboard: DashboardHarness) -> None:
    """In order, as if it had been written in the chat."""
    chat = await long_chat(dashboard)
    gate = Gate()
    dashboard.script.will([gate, "Done."], "## Goal\nSummary.")
    opened = await dashboard.open("desk")
    await opened.send("Go on")
    await gate.reached.wait()
    gate.set()
    assert "Compressed: 86 -> " in await dashboard.act(f"{chat.api}/compress", {"topic": ""})


async def test_nobody_waits_for_ever(dashboard: DashboardHarness) -> None:
    """A command that waits longer than the timeout still runs."""
    chat = await long_chat(dashboard)
    gate = Gate()
    dashboard.script.will([gate, "Done."], "## Goal\nSummary.")
    opened = await dashboard.open("desk")
    await opened.send("Go on")
    await gate.reached.wait()
    conversation = await dashboard.store.sessions.conversation(chat.id)
    answer = await dashboard.gateway.run_command(
        conversation, CommandCall("compress"), actor=OWNER, timeout=0.0
    )
    assert "may take a while" in answer
    async with opened.watch() as events:
        gate.set()
        await events.until("TurnDone")
        assert "Compressed: 86 -> " in str(await events.until("TurnDone"))


@pytest.mark.parametrize(
    ("topic", "status", "sentence"),
    [("x" * 201, 400, "at most 200"), (7, 400, "must be a string"), ("--preview", 400, "dash")],
)
async def test_topics_that_are_none(
    dashboard: DashboardHarness, topic: object, status: int, sentence: str
) -> None:
    """Nothing is compressed."""
    chat = await long_chat(dashboard, exchanges=1)
    found, answer = await dashboard.post(f"{chat.api}/compress", {"topic": topic})
    assert (found, sentence in answer["error"]) == (status, True), answer
    assert (await dashboard.post(f"{API}/conv_forged/compress", {"topic": ""}))[0] == 404


async def test_there_is_nothing_to_compress(dashboard: DashboardHarness) -> None:
    """It says so."""
    chat = await long_chat(dashboard, exchanges=1)
    assert "nothing to compress yet" in await dashboard.act(f"{chat.api}/compress", {})


async def test_a_model_that_cannot_be_asked(dashboard: DashboardHarness) -> None:
    """Nothing changes, and the page says why."""
    chat = await long_chat(dashboard)
    dashboard.script.will(AuthenticationFailed("401"), AuthenticationFailed("401"))
    live = await chat.live()
    assert "refused the key" in await dashboard.act(f"{chat.api}/compress", {})
    assert await chat.live() == live


async def test_the_chat_is_told(dashboard: DashboardHarness) -> None:
    """A person in a chat learns what was done to their conversation; nothing of it is left in the inbox."""
    async with running_bot(dashboard) as memory:
        await memory.hears("Hello")
        await memory.shows("Yes.")
        [overview] = await dashboard.store.sessions.conversations(person="memory:1")
        chat = LongChat(dashboard, overview.conversation.id)
        assert "nothing to compress yet" in await dashboard.act(f"{chat.api}/compress", {"topic": "boats"})
        await memory.shows("nothing to compress yet")
        assert overview.conversation.address.chat_id == ANNA.id
        assert await dashboard.store.inbox.waiting("memory") == []


@pytest.mark.parametrize(
    ("attempts", "answer"), [(0, "nothing to compress yet"), (1, "may or may not have taken effect")]
)
async def test_a_command_that_a_crash_left_behind(
    dashboard: DashboardHarness, attempts: int, answer: str
) -> None:
    """It runs after the next start, unless it may have run before; the chat learns which."""
    place, address = Place(ANNA.id), Address("memory", ANNA.id)
    conversation = await dashboard.store.sessions.open_conversation(address, person="memory:1")
    command = CommandCall("compress")
    inbound = InboundMessage(address, "memory:1", command.text, command=command, author=OWNER)
    await dashboard.store.inbox.add(encode_command(conversation, inbound, place))
    for _ in range(attempts):
        await dashboard.store.inbox.start_attempt(inbound.id)
    async with running_bot(dashboard) as memory:
        await memory.shows(answer)
        assert await dashboard.store.inbox.waiting("memory") == []
        assert await dashboard.store.inbox.parked() == []
        assert len(memory.service.texts()) == 1


async def test_a_command_of_an_older_version_that_a_crash_left_behind(dashboard: DashboardHarness) -> None:
    """It was stored as a chat message of an account that no bot lets in: it is dropped."""
    place = Place(ANNA.id)
    message = ChatMessage("cmd_1", place, Author("dashboard", "The dashboard"), "/compress")
    row = InboxMessage(inbox_id("memory", place, message.id), "memory", encode(message), place)
    await dashboard.store.inbox.add(row)
    async with running_bot(dashboard) as memory:
        assert await dashboard.store.inbox.waiting("memory") == []
        assert await dashboard.store.inbox.parked() == []
        assert memory.service.texts() == []


async def test_a_command_runs_under_the_lease_and_is_persisted(dashboard: DashboardHarness) -> None:
    """While an earlier turn runs, the command waits in the inbox."""
    gate = Gate()
    dashboard.script.will([gate, "Done."])
    chat = await dashboard.open("desk")
    await chat.send("Go on")
    await gate.reached.wait()
    conversation = await dashboard.store.sessions.open_conversation(Address("web", "desk"), person=OWNER)
    running = asyncio.create_task(
        dashboard.gateway.run_command(conversation, CommandCall("whoami"), actor=OWNER)
    )
    async with asyncio.timeout(10):
        while len(await dashboard.store.inbox.waiting("web")) < 2:
            pass
    assert not running.done()
    gate.set()
    assert "You are an admin." in await running
    assert await dashboard.store.inbox.waiting("web") == []


async def test_a_command_that_overtakes_answers_at_once(dashboard: DashboardHarness) -> None:
    conversation = await dashboard.store.sessions.open_conversation(Address("web", "desk"), person=OWNER)
    answer = await dashboard.gateway.run_command(conversation, CommandCall("stop"), actor=OWNER)
    assert answer == "Nothing is running."
    assert await dashboard.store.inbox.waiting("web") == []
