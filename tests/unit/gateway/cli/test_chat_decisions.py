"""Decisions, files and waiting messages in `hermes chat`: a real pseudo-terminal, pipes, the real terminal tool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent.events import ApprovalAsked
from agent.messages import ToolCall
from agent.untrusted import without_marks
from gateway.cli.chat_backend import LocalChat
from gateway.cli.chat_single import ask
from gateway.platforms.web.owner_conversations import OwnerConversations
from gateway.process_lock import hold_lock
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Call
from tests.support import sandboxed
from tests.support.cli_harness import CliHarness, Shell, inhabited
from tests.support.gateways import Gate
from tests.support.stores import temporary_store

RUN = ToolCall("call_1", "terminal", '{"command": "echo $((6 * 7))"}')
CHOOSE = "[o]nce, this [c]onversation, [d]eny ›"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A state directory that belongs to a running gateway: the one in the test."""
    home = tmp_path / "home"
    home.mkdir()
    with hold_lock(home), capture_logs():
        yield home


@pytest.fixture
async def attached(home: Path) -> AsyncIterator[tuple[CliHarness, Shell]]:
    """A gateway that already runs, as `hermes chat` finds it."""
    async with inhabited(home) as both:
        yield both


def told(harness: CliHarness) -> str:
    """What the model heard of its last call."""
    return without_marks(str(harness.llm.requests[-1].messages[-1]["content"]))


async def test_once_at_the_prompt(attached: tuple[CliHarness, Shell]) -> None:
    """The command is shown, the prompt asks, the answer runs it; the next call asks again."""
    harness, shell = attached
    harness.will([RUN], "The answer is 42.", [RUN], "Not again.")
    async with shell.terminal() as terminal:
        await terminal.until("›")
        terminal.type("What is six times seven?\r")
        await terminal.until("May Hermes run terminal?\n  echo $((6 * 7))\n")
        await terminal.until(CHOOSE)
        terminal.type("o\r")
        await terminal.until("✓ allowed once\n")
        await terminal.until("The answer is 42.\n\n›")
        assert told(harness) == "42\n[exit code 0]"
        assert terminal.screen.lines[-1] == "›"
        terminal.type("Again\r")
        await terminal.until(lambda screen: screen.lines[-1] == CHOOSE)
        terminal.type("deny\r")
        await terminal.until("✗ denied\n")
        await terminal.until("Not again.\n\n›")
        assert "did not allow this" in told(harness)


async def test_what_is_no_choice_is_not_sent(attached: tuple[CliHarness, Shell]) -> None:
    """A sentence, a mere yes: neither decides, neither reaches the model, and both can be had back."""
    harness, shell = attached
    harness.will([RUN], "Done.")
    async with shell.terminal() as terminal:
        await terminal.until("›")
        terminal.type("Run it\r")
        await terminal.until(CHOOSE)
        terminal.type("yes\r")
        await terminal.until("First type o, c or d and press Enter")
        terminal.type("\x1b[A")
        await terminal.until(f"{CHOOSE} yes")
        terminal.type("\x7f\x7f\x7fC\r")
        await terminal.until("✓ allowed in this conversation")
        await terminal.until("Done.\n\n›")
    assert harness.told() == ["Run it"]


async def test_ctrl_c_withdraws_the_question(attached: tuple[CliHarness, Shell]) -> None:
    """The turn ends, nothing ran, and the prompt is the ordinary one again."""
    harness, shell = attached
    harness.will([RUN])
    async with shell.terminal() as terminal:
        await terminal.until("›")
        terminal.type("Run it\r")
        await terminal.until(CHOOSE)
        terminal.type("\x03")
        await terminal.until("✗ expired without an answer, not run\n\nStopped.\n\n›")
        assert terminal.screen.lines[-1] == "›"


async def test_another_window_decides(attached: tuple[CliHarness, Shell]) -> None:
    """Both are asked; the first answer settles it in both."""
    harness, shell = attached
    harness.will([RUN], "Done.")
    async with shell.terminal() as first, shell.terminal() as second:
        await first.until("›")
        await second.until("›")
        first.type("Run it\r")
        await first.until(CHOOSE)
        await second.until(CHOOSE)
        second.type("d\r")
        for window in (first, second):
            await window.until("✗ denied")
            await window.until("Done.\n\n›")


async def test_a_pipe_is_denied_at_once(attached: tuple[CliHarness, Shell]) -> None:
    """Without a terminal to ask, the model gets a denial and the person reads how to allow the tool."""
    harness, shell = attached
    harness.will([RUN], "I may not.")
    asked = await shell.chat("-q", "What is six times seven?")
    assert (asked.code, asked.stdout) == (0, "I may not.\n")
    assert asked.stderr.startswith("denied: terminal echo $((6 * 7)). `hermes chat -q` cannot ask you;")
    assert "`tools.approval: off`" in asked.stderr and "`hermes chat` without -q" in asked.stderr
    assert "did not allow this" in told(harness)


async def test_single_questions_stay_out_of_the_list(attached: tuple[CliHarness, Shell]) -> None:
    """Each is kept, and findable, in a conversation of its own; the page lists only those with a name."""
    harness, shell = attached
    await shell.chat("-q", "just this")
    await shell.chat("--chat", "work", "-q", "one of several")
    assert len(await harness.store.sessions.conversations()) == 2
    conversations = OwnerConversations(harness.gateway)
    assert [overview.title for overview in await conversations.overviews()] == ["one of several"]


async def test_a_question_taken_into_another_turn_denies_nothing(tmp_path: Path) -> None:
    """The turn started in another window, where a person can be asked."""
    with capture_logs():
        harness, gate = CliHarness(tmp_path, await temporary_store(), busy="steer"), Gate()
        harness.will([gate, ToolCall("c0", "look_up", '{"word": "tea"}')], [RUN], "Both.")
        window, pipe = LocalChat(harness.gateway, ""), LocalChat(harness.gateway, "")
        await window.open("main")
        await pipe.open("main")
        await window.send("What is tea?")
        await gate.reached.wait()
        asking = asyncio.create_task(ask(pipe, "And six times seven?"))
        await harness.gateway.arrival_of("And six times seven?")
        gate.set()
        async for event in window.events():
            if isinstance(event, ApprovalAsked):
                assert await window.decide(event.approval_id, "once") == "Approved once."
                break
        await asking
        assert told(harness) == "42\n[exit code 0]"


async def test_a_file_is_told_with_its_place(attached: tuple[CliHarness, Shell]) -> None:
    """In the terminal and on standard error: where it lies, and the caption."""
    harness, shell = attached
    harness.will([ToolCall("c1", "terminal", '{"command": "echo yes > report.md"}')])
    harness.will([ToolCall("c2", "send_file", '{"path": "report.md", "caption": "As promised."}')], "Sent.")
    async with shell.terminal() as terminal:
        await terminal.until("›")
        terminal.type("Write a report and send it\r")
        await terminal.until(CHOOSE)
        terminal.type("o\r")
        await terminal.until("Sent.\n\n›")
        shown = "".join(terminal.screen.lines)
    (report,) = found_below(shell.home, "report.md")
    assert f"⇩ As promised.{report}" in shown

    harness.will([ToolCall("c3", "send_file", '{"path": "report.md"}')], "Sent.")
    assert f"⇩ report.md\n{report}\n" in (await shell.chat("--chat", "main", "-q", "Again")).stderr


async def test_a_message_that_waits_for_its_turn(attached: tuple[CliHarness, Shell]) -> None:
    """It is said that it waits; when its turn comes it is shown again above its answer."""
    harness, shell = attached
    gate = Gate()
    harness.will([gate, "First."])
    async with shell.terminal() as terminal:
        await terminal.until("›")
        terminal.type("one\r")
        await gate.reached.wait()
        terminal.type("two\r")
        await terminal.until("↳ queued: two")
        gate.set()
        await terminal.until("First.\n\n› two\n\nYou said: two\n\n›")


async def test_a_question_to_a_busy_chat_says_that_it_waits(attached: tuple[CliHarness, Shell]) -> None:
    """On standard error; the answer is that of its own turn."""
    harness, shell = attached
    gate = Gate()
    harness.will([gate, "First."])
    async with shell.terminal() as terminal:
        await terminal.until("›")
        terminal.type("one\r")
        await gate.reached.wait()
        process = await shell.start("--chat", "main", "-q", "two")
        assert process.stdin and process.stderr
        process.stdin.close()
        told = await asyncio.wait_for(process.stderr.readline(), 60)
        gate.set()
        stdout, stderr = await asyncio.wait_for(process.communicate(), 60)
    assert told == b"This chat is busy; your question is queued.\n"
    assert (stdout, stderr) == (b"You said: two\n", b"")


async def test_with_the_agent_in_this_process(tmp_path: Path) -> None:
    """No gateway runs; `terminal` is turned on by hermes.yaml: asked at the prompt, denied in a pipe."""
    async with FakeOpenAI() as server:
        model = {"name": "openai/test", "base_url": server.base_url, "api_key": server.api_key}
        tools = {"enabled": ["terminal"], "sandbox": {"mode": sandboxed.MODE}}
        config = {"model": {**model, "context_length": 32_000}, "tools": tools}
        shell = Shell(tmp_path / "home", config)
        for _ in range(2):
            server.reply(tool_calls=[Call("terminal", {"command": "echo $((6 * 7))", "timeout": 5})])
            server.reply("So be it.")
        async with shell.terminal() as terminal:
            await terminal.until("›")
            terminal.type("Run it\r")
            await terminal.until(
                "May Hermes run terminal?\n  command\n    echo $((6 * 7))\n  timeout\n    5\n"
            )
            terminal.type("o\r")
            await terminal.until("So be it.\n\n›")
            assert without_marks(server.requests[-1].body["messages"][-1]["content"]) == "42\n[exit code 0]"
            terminal.type("\x04")
            assert await terminal.ended() == 0
        asked = await shell.chat("-q", "Run it")
        assert asked.stdout == "So be it.\n"
        assert asked.stderr.startswith("denied: terminal command=echo $((6 * 7)) timeout=5.")
        assert "did not allow" in server.requests[-1].body["messages"][-1]["content"]


def found_below(folder: Path, name: str) -> list[Path]:
    return list(folder.rglob(name))
