"""One question: which of its events are the answer, and where everything else goes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent.errors import RateLimited
from agent.messages import ToolCall
from gateway.cli.chat_backend import LocalChat
from gateway.cli.chat_single import AnswerStopped, Unanswered, ask
from tests.support.cli_harness import LOOK_UP, CliHarness
from tests.support.gateways import Gate
from tests.support.stores import temporary_store


@pytest.fixture
async def harness(tmp_path: Path) -> CliHarness:
    return CliHarness(tmp_path, await temporary_store())


@pytest.fixture(autouse=True)
def no_log_lines() -> Iterator[None]:
    """Until logging is configured, log lines go to standard output."""
    with capture_logs():
        yield


async def opened(harness: CliHarness) -> LocalChat:
    chat = LocalChat(harness.gateway, "")
    await chat.open("main")
    return chat


async def test_the_answer_and_the_rest(harness: CliHarness, capsys: pytest.CaptureFixture[str]) -> None:
    """Text goes to standard output, each piece of it on lines of its own; tools are told of on the other one."""
    harness.will(["Let me", " look.", LOOK_UP], "Tea is \x1b[1ma drink.")
    await ask(await opened(harness), "What is tea?")
    out, err = capsys.readouterr()
    assert out == "Let me look.\nTea is \x1b[1ma drink.\n"
    assert err == "look_up tea · 0.0 s · ok\n"


async def test_a_tool_that_fails_is_told(harness: CliHarness, capsys: pytest.CaptureFixture[str]) -> None:
    """With its reason, still on standard error."""
    harness.will([ToolCall("call_1", "look_up", '{"wort": 1}')], "Sorry.")
    await ask(await opened(harness), "What is tea?")
    out, err = capsys.readouterr()
    assert out == "Sorry.\n"
    assert err.startswith("look_up 1 · 0.0 s · failed: ")


async def test_a_failed_turn_raises_its_sentence(
    harness: CliHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    """What had arrived stays on standard output."""
    harness.will(["Well, ", RateLimited()])
    with pytest.raises(Unanswered) as failed:
        await ask(await opened(harness), "What is tea?")
    assert str(failed.value) == str(RateLimited())
    assert capsys.readouterr().out == "Well, \n"


async def test_commands_answer_on_standard_output(
    harness: CliHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also those that run at once and begin no turn."""
    chat = await opened(harness)
    await ask(chat, "/status")
    assert capsys.readouterr().out.startswith("Model: scripted/model")
    await ask(chat, "/stop")
    assert capsys.readouterr().out == "Nothing is running.\n"


async def test_a_new_session(harness: CliHarness, capsys: pytest.CaptureFixture[str]) -> None:
    """The model does not see what was said before, and the answer stays alone on standard output."""
    chat = await opened(harness)
    await ask(chat, "one")
    await ask(chat, "two", new_session=True)
    assert harness.told() == ["two"]
    assert capsys.readouterr().out == "You said: one\nYou said: two\n"


async def test_a_question_into_a_running_turn(
    harness: CliHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    """The chat is busy in another window: the question is taken into that turn, and its end is the answer."""
    gate = Gate()
    harness.will([gate, "Looking.", LOOK_UP], "Both: a drink.")
    other = await opened(harness)
    await other.send("What is tea?")
    await gate.reached.wait()
    asking = asyncio.create_task(ask(await opened(harness), "And coffee?"))
    await harness.gateway.arrival_of("And coffee?")
    gate.set()
    await asking
    assert harness.told() == ["What is tea?", "And coffee?"]
    assert capsys.readouterr().out == "Both: a drink.\n"


async def test_stopped_by_somebody_else(harness: CliHarness) -> None:
    """Half an answer is not reported as a whole one."""
    gate = Gate()
    harness.will(["Once upon", gate])
    chat = await opened(harness)
    asking = asyncio.create_task(ask(chat, "A story"))
    await gate.reached.wait()
    assert await chat.stop()
    with pytest.raises(AnswerStopped):
        await asking


async def test_leaving_stops_the_turn(harness: CliHarness) -> None:
    """The client is gone, so the model call is cancelled."""
    gate = Gate()
    harness.will(["Once upon", gate])
    chat = await opened(harness)
    asking = asyncio.create_task(ask(chat, "A story"))
    await gate.reached.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not await chat.stop(), "the turn is being ended already"
