"""Turn events as page updates, event by event: what cannot be provoked from outside."""

from __future__ import annotations

from typing import Literal

import pytest

from agent.events import (
    ApprovalAsked,
    ApprovalSettled,
    Compacted,
    FileSent,
    Notice,
    Queued,
    Steered,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnEvent,
    TurnStarted,
    UsageReported,
)
from agent.llm import Usage
from gateway.platforms.web.chat_page import LiveTurn, Update
from gateway.platforms.web.renderer import HtmlRenderer
from gateway.platforms.web.templating import templates

BEGIN = TurnStarted("m1", "hello")


@pytest.fixture
def renderer() -> HtmlRenderer:
    """Real templates."""
    return HtmlRenderer(templates())


async def _play(renderer: HtmlRenderer, *events: TurnEvent) -> list[Update]:
    turn = LiveTurn(renderer, "conv_1")
    return [update for event in events for update in await turn.updates(event)]


def _ops(updates: list[Update]) -> list[str]:
    return [update["op"] for update in updates]


async def test_an_answer_that_did_not_stream_is_shown(renderer: HtmlRenderer) -> None:
    """A model that gives its text only with the end of the turn."""
    updates = await _play(renderer, BEGIN, TurnDone("All *at once*."))
    assert _ops(updates) == ["start_turn", "finish_text", "end_turn"]
    assert "<em>at once</em>" in updates[1]["html"]


async def test_a_streamed_answer_is_not_repeated_at_the_end(renderer: HtmlRenderer) -> None:
    """TurnDone carries the text that was already shown."""
    updates = await _play(
        renderer, BEGIN, TextDelta("Hi."), UsageReported(Usage(5, 2), "m", 10), TurnDone("Hi.")
    )
    assert _ops(updates) == ["start_turn", "append_text", "finish_text", "append", "end_turn"]


async def test_whole_paragraphs_are_drawn_while_the_rest_arrives(renderer: HtmlRenderer) -> None:
    """Each time all that came before, so that a list or a fence that goes on stays one; short lines wait."""
    first, second = "# A heading\n\n" + "word " * 20, "\n\n```py\n" + "x = 1\n" * 20
    updates = await _play(
        renderer, BEGIN, TextDelta("Hm.\n\n"), TextDelta(first), TextDelta(second + "\n\ny =")
    )
    assert _ops(updates) == ["start_turn", "append_text", "append_text", "render_text"]
    assert "<h1>A heading</h1>" in updates[3]["html"]
    assert updates[3]["html"].count("<pre") == 1
    assert updates[3]["rest"] == "y ="


async def test_a_long_answer_is_not_drawn_for_every_paragraph(renderer: HtmlRenderer) -> None:
    """All of it is rendered each time, so the drawings become rarer as it grows."""
    paragraphs = [TextDelta("word " * 20 + "\n\n")] * 400
    updates = await _play(renderer, BEGIN, *paragraphs, TurnDone(""))
    assert 20 < _ops(updates).count("render_text") < 60


async def test_what_was_drawn_is_part_of_the_final_answer(renderer: HtmlRenderer) -> None:
    """Nothing is lost or doubled between the two forms."""
    text = "word " * 20 + "\n\n**the** end"
    updates = await _play(renderer, BEGIN, TextDelta(text), TurnDone(text))
    assert _ops(updates) == ["start_turn", "render_text", "finish_text", "end_turn"]
    assert updates[2]["html"] == renderer.answer(text)


async def test_a_retry_in_the_middle_does_not_tear_the_answer(renderer: HtmlRenderer) -> None:
    """The notice is placed beside the text, which goes on and is rendered as one."""
    updates = await _play(
        renderer, BEGIN, TextDelta("**one "), Notice("Asking again."), TextDelta("two**"), TurnDone("")
    )
    assert _ops(updates) == ["start_turn", "append_text", "notice", "append_text", "finish_text", "end_turn"]
    assert "<strong>one two</strong>" in updates[4]["html"]


async def test_text_and_tools_stay_in_order(renderer: HtmlRenderer) -> None:
    """Text before a call is settled before the call is drawn; the result replaces the call."""
    updates = await _play(
        renderer,
        BEGIN,
        TextDelta("First."),
        ToolStarted("c1", "look_up", '{"word": "wing"}'),
        ToolFinished("c1", "look_up", True, "found", 1.25),
        TextDelta("Then."),
        TurnDone("Then."),
    )
    assert _ops(updates) == [
        "start_turn",
        "append_text",
        "finish_text",
        "append",
        "replace_tool",
        "append_text",
        "finish_text",
        "end_turn",
    ]
    assert "running" in updates[3]["html"]
    assert "found" in updates[4]["html"] and "1.2 s" in updates[4]["html"]


async def test_a_tool_that_was_stopped_is_marked(renderer: HtmlRenderer) -> None:
    """The spinner ends with the turn."""
    updates = await _play(renderer, BEGIN, ToolStarted("c1", "look_up", "{}"), TurnDone("", stopped=True))
    assert 'data-state="abandoned"' in updates[2]["html"]
    assert "Stopped." in updates[3]["html"]


async def test_a_steered_message_is_drawn_where_it_was_read(renderer: HtmlRenderer) -> None:
    """With its id, so that the page takes it off the queue."""
    updates = await _play(renderer, BEGIN, TextDelta("Well"), Steered("m2", "also this"))
    assert _ops(updates) == ["start_turn", "append_text", "finish_text", "append"]
    assert updates[3]["id"] == "m2"


@pytest.mark.parametrize(
    ("how", "ahead", "label"),
    [
        ("queue", 1, "after this answer"),
        ("queue", 3, "after the earlier messages"),
        ("steer", 1, "at its next step"),
        ("interrupt", 1, "Stops the current answer"),
    ],
)
async def test_a_message_that_waits_says_what_becomes_of_it(
    renderer: HtmlRenderer, how: Literal["queue", "steer", "interrupt"], ahead: int, label: str
) -> None:
    """The answer being written is not torn by it."""
    updates = await _play(
        renderer, BEGIN, TextDelta("Well"), Queued("m2", "<b>", how, ahead), TextDelta(", yes")
    )
    assert _ops(updates) == ["start_turn", "append_text", "queued", "append_text"]
    assert updates[2]["id"] == "m2"
    assert label in updates[2]["html"] and "&lt;b&gt;" in updates[2]["html"]


ASKED = ApprovalAsked("a1", "terminal", '{"command": "rm -r \\u202etxt <b>"}', "owner", 2_000_000_000.0)


async def test_a_question_shows_the_whole_command_and_nothing_hidden(renderer: HtmlRenderer) -> None:
    """A character that would turn the text around is written out; markup stays text."""
    asked = (await _play(renderer, BEGIN, ASKED))[-1]
    assert asked["op"] == "append"
    assert r"rm -r \u202etxt &lt;b&gt;" in asked["html"]
    assert asked["html"].count("<button") == 3


@pytest.mark.parametrize(
    ("choice", "outcome"),
    [
        ("once", "Allowed once"),
        ("conversation", "Allowed in this conversation"),
        ("deny", "Denied"),
        ("expired", "Expired without an answer, not run"),
    ],
)
async def test_a_question_that_is_settled_has_no_buttons(
    renderer: HtmlRenderer, choice: Literal["once", "conversation", "deny", "expired"], outcome: str
) -> None:
    """Its card is drawn again with the outcome, under the same id."""
    settled = (await _play(renderer, BEGIN, ASKED, ApprovalSettled("a1", choice)))[-1]
    assert (settled["op"], settled["id"]) == ("replace_approval", "a1")
    assert outcome in settled["html"] and "<button" not in settled["html"]


async def test_a_file_is_named_without_its_path(renderer: HtmlRenderer) -> None:
    """The link holds neither the path nor the folder, and a name cannot pretend to another ending."""
    (sent,) = (await _play(renderer, BEGIN, FileSent("/srv/ws", "out/\u202efdp.exe", "x", "<Here>")))[1:]
    assert 'href="/api/conversations/conv_1/files/' in sent["html"]
    assert "out/" not in sent["html"] and "/srv" not in sent["html"]
    assert r"\u202efdp.exe" in sent["html"] and "&lt;Here&gt;" in sent["html"]


async def test_a_compaction_is_told(renderer: HtmlRenderer) -> None:
    """In words, with the numbers that matter."""
    updates = await _play(renderer, BEGIN, Compacted("s2", 90, 12, 98_000, 21_000))
    assert "from 98,000 to 21,000 tokens" in updates[1]["html"]


@pytest.mark.parametrize(
    ("costs", "shown"), [((0.5, 0.25), "$0.7500"), ((0.5, None), ""), ((None, 0.5), ""), ((0.0, 0.0), "")]
)
async def test_a_price_is_shown_only_if_all_of_it_is_known(
    renderer: HtmlRenderer, costs: tuple[float | None, ...], shown: str
) -> None:
    """Half a price would be a wrong price."""
    reports = [UsageReported(Usage(1, 1, cost_usd=cost), "m", 10) for cost in costs]
    usage = (await _play(renderer, BEGIN, *reports, TurnDone("")))[-2]["html"]
    assert (shown or "tokens in") in usage
    assert ("$" in usage) == bool(shown)


async def test_broken_arguments_are_shown_as_they_came(renderer: HtmlRenderer) -> None:
    """Models write broken JSON; the person sees what was written."""
    updates = await _play(renderer, BEGIN, ToolStarted("c1", "look_up", '{"word": <'))
    assert "{&#34;word&#34;: &lt;" in updates[1]["html"]


async def test_a_notice_shows_code_and_what_was_found(renderer: HtmlRenderer) -> None:
    """Commands between backticks, matched words in bold, and whatever else somebody wrote as it is."""
    [_, update] = await _play(
        renderer, BEGIN, Notice("`/resume 2`: the **train** at 5 \\* 2 <b>now</b>, a ` and ** alone")
    )
    assert "<code>/resume 2</code>: the <strong>train</strong> at 5 * 2 &lt;b&gt;now" in update["html"]
    assert "a ` and ** alone" in update["html"]
