"""Decisions over the API, about calls of the real terminal tool: whose counts, when, and for how long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.messages import ToolCall
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Call
from tests.support import sandboxed
from tests.support.hermes_process import WebClient, hermes
from tests.support.web_harness import Chat, Events, WebHarness, web_harness

RUN = ToolCall("c1", "terminal", '{"command": "echo $((6 * 7)) | tee ran.txt"}')
OVER = "This request is no longer open."


@asynccontextmanager
async def asked(chat: Chat, call: ToolCall = RUN) -> AsyncIterator[tuple[Events, dict[str, Any]]]:
    """A turn that waits for a decision, and what it asked."""
    chat.harness.script.will([call], ["Done."])
    async with chat.watch() as events:
        message_id = await chat.send("Run it")
        while (await events.until("TurnStarted"))[-1]["message_id"] != message_id:
            pass  # an earlier turn is replayed first
        yield events, (await events.until("ApprovalAsked"))[-1]


def exists_below(folder: Path, name: str) -> bool:
    return any(folder.rglob(name))


async def result(events: Events) -> dict[str, Any]:
    return (await events.until("ToolFinished"))[-1]


async def test_once_runs_it_this_time_only(chat: Chat) -> None:
    """The command waits for the word, then runs; the same command asks again."""
    async with asked(chat) as (events, question):
        assert question["tool"] == "terminal"
        assert question["arguments"] == RUN.arguments
        assert await chat.decide(question["approval_id"], "once") == "Approved once."
        finished = await result(events)
        assert finished["ok"] and finished["result"].startswith("42\n")
        await events.until("TurnDone")
    async with asked(chat) as (events, again):
        assert again["approval_id"] != question["approval_id"]
        await chat.decide(again["approval_id"], "deny")
        await events.until("TurnDone")


async def test_this_conversation_is_not_asked_again(harness: WebHarness, chat: Chat) -> None:
    """The same command runs at once from then on; another command, and another conversation, are asked about."""
    async with asked(chat) as (events, question):
        await chat.decide(question["approval_id"], "conversation")
        await events.until("TurnDone")
    harness.script.will([RUN], ["Done."])
    assert "ApprovalAsked" not in {event["type"] for event in await chat.ask("Again")}

    other_command = ToolCall("c1", "terminal", '{"command": "echo other"}')
    for place, call in ((chat, other_command), (await harness.open("other"), RUN)):
        async with asked(place, call) as (events, question):
            await place.decide(question["approval_id"], "deny")
            await events.until("TurnDone")


async def test_deny_runs_nothing(chat: Chat, tmp_path: Path) -> None:
    """The model is told so, and nothing has happened in the workspace."""
    async with asked(chat) as (events, question):
        assert await chat.decide(question["approval_id"], "deny") == "Denied."
        finished = await result(events)
        assert not finished["ok"] and "did not allow this" in finished["result"]
        await events.until("TurnDone")
    assert not exists_below(tmp_path, "ran.txt")


async def test_a_decision_counts_once(chat: Chat) -> None:
    """Pressed twice, in two tabs or by a replayed request: the first choice counts."""
    async with asked(chat) as (events, question):
        assert await chat.decide(question["approval_id"], "deny") == "Denied."
        assert await chat.decide(question["approval_id"], "once") == OVER
        assert not (await result(events))["ok"]
        await events.until("TurnDone")
    assert await chat.decide(question["approval_id"], "once") == OVER


async def test_a_stopped_turn_cannot_be_approved_any_more(chat: Chat, tmp_path: Path) -> None:
    """The card says so at once; a button pressed too late does nothing."""
    async with asked(chat) as (events, question):
        await chat.stop()
        settled, *_ = await events.until("TurnDone")
        assert settled == {
            "type": "ApprovalSettled",
            "approval_id": question["approval_id"],
            "choice": "expired",
        }
    assert await chat.decide(question["approval_id"], "once") == OVER
    assert not exists_below(tmp_path, "ran.txt")


async def test_neither_forged_ids_nor_another_conversation_decide(harness: WebHarness, chat: Chat) -> None:
    """Whatever is not this question in this conversation sounds the same, and the question stays open."""
    other = await harness.open("other")
    async with asked(chat) as (events, question):
        approval_id = question["approval_id"]
        for place, forged in ((chat, "x"), (chat, approval_id + "x"), (chat, "%00"), (other, approval_id)):
            assert await place.decide(forged, "once") == OVER
        assert await chat.decide(approval_id, "deny") == "Denied."
        await events.until("TurnDone")


@pytest.mark.parametrize("body", [{}, {"choice": "always"}, {"choice": ["once"]}, {"choice": None}, ["once"]])
async def test_a_choice_that_is_none_is_refused(chat: Chat, body: Any) -> None:
    """It is neither a yes nor a no."""
    async with asked(chat) as (events, question):
        path = f"/api/conversations/{chat.id}/approvals/{question['approval_id']}"
        status, answer = await chat.harness.post(path, body)
        assert status == 400
        assert answer["error"].endswith(".")
        await chat.decide(question["approval_id"], "deny")
        await events.until("TurnDone")


async def test_another_site_cannot_decide(tmp_path: Path) -> None:
    """Not from its own page, not with a form, not without the token."""
    headers = {"Authorization": "Bearer sesame"}
    async with web_harness(tmp_path, token="sesame") as harness:
        path = "/api/conversations/c/approvals/a"
        foreign = {**headers, "Origin": "http://evil.invalid"}
        assert (await harness.post(path, {"choice": "once"}, headers=foreign))[0] == 403
        async with harness.http.post(
            harness.url + path, data={"choice": "once"}, headers=headers
        ) as response:
            assert response.status == 415
        assert (await harness.post(path, {"choice": "once"}))[0] == 401
        assert (await harness.get("/api/conversations/c/files/f"))[0] == 401


async def test_in_the_real_process(tmp_path: Path) -> None:
    """With `terminal` turned on by hermes.yaml: it asks, waits for the word, runs in the sandbox that is configured; a
    denied one does not run."""
    async with FakeOpenAI() as server:
        model = {"name": "openai/test", "base_url": server.base_url, "api_key": server.api_key}
        tools = {"enabled": ["terminal"], "sandbox": {"mode": sandboxed.MODE, "processes": 33}}
        config = {"model": {**model, "context_length": 32_000}, "tools": tools}
        server.reply(tool_calls=[Call("terminal", {"command": "echo $((6 * 7)); ulimit -u"})])
        server.reply("Forty-two.")
        server.reply(tool_calls=[Call("terminal", {"command": "touch never"})])
        server.reply("As you wish.")
        async with hermes(tmp_path, config) as process, WebClient.open(process.url, "desk") as client:
            allowed = await _told_to(client, "once")
            assert allowed.startswith("42\n")
            assert ("\n33\n" in allowed) == (sandboxed.MODE == "bubblewrap")
            assert "did not allow" in await _told_to(client, "deny")
    assert not exists_below(tmp_path, "never")


async def _told_to(client: WebClient, choice: str) -> str:
    """Answers what one turn asks; gives what came of the call."""
    await client.send("Run it")
    outcome = ""
    async for event in client.events():
        if event["type"] == "ApprovalAsked":
            await client.decide(event["approval_id"], choice)
        elif event["type"] == "ToolFinished":
            outcome = event["result"]
        elif event["type"] == "TurnDone":
            return outcome
    raise AssertionError("the stream ended early")
