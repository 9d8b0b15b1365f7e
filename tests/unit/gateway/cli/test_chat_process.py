"""`hermes chat` as a person meets it: real processes, pipes and a pseudo-terminal.

Most of these talk to a gateway inside the test, as they would to one that is already running; two run the agent
themselves, against a model server on loopback.
"""

from __future__ import annotations

import asyncio
import signal
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.platforms.web.platform import WebPlatform
from gateway.process_lock import hold_lock
from gateway.store.sqlite.store import SqliteStore
from tests.fakes.openai.server import FakeOpenAI
from tests.support.cli_harness import LOOK_UP, CliHarness, Shell
from tests.support.gateways import Gate, serving
from tests.support.stores import temporary_store


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def in_use(home: Path) -> Iterator[None]:
    """The state directory belongs to a running gateway: the one in the test."""
    with hold_lock(home), capture_logs():
        yield


@pytest.fixture
async def harness(home: Path, in_use: None) -> AsyncIterator[CliHarness]:
    store = await SqliteStore.open(home / "state.db")
    yield CliHarness(home, store)
    await store.close()


@pytest.fixture
async def door(harness: CliHarness) -> AsyncIterator[WebPlatform]:
    async with serving(harness.gateway) as web:
        yield web


@pytest.fixture
def shell(home: Path, door: WebPlatform) -> Shell:
    return Shell(home, {"platforms": {"web": {"port": int(door.where.rpartition(":")[2])}}})


async def test_questions_from_arguments_and_pipes(shell: Shell, harness: CliHarness) -> None:
    """A pipe is the question, or is appended to the question of -q; each question starts a new session."""
    asked = await shell.chat("-q", "just this")
    assert (asked.code, asked.stdout, asked.stderr) == (0, "You said: just this\n", "")
    assert (await shell.chat(stdin=b"from a pipe\n")).stdout == "You said: from a pipe\n"
    await shell.chat("-q", "-", stdin=b"with a dash\n")
    assert harness.told() == ["with a dash"]
    await shell.chat("-q", "Summarise:", stdin=b"line one\nline two\n")
    assert harness.told() == ["Summarise:\n\nline one\nline two"]


async def test_a_named_chat_goes_on(shell: Shell, harness: CliHarness) -> None:
    """`--chat` remembers until `--new` begins a new session."""
    await shell.chat("--chat", "work", "-q", "one")
    await shell.chat("--chat", "work", "-q", "two")
    assert harness.told() == ["one", "two"]
    renewed = await shell.chat("--chat", "work", "--new", "-q", "three")
    assert renewed.stdout == "You said: three\n"
    assert harness.told() == ["three"]


@pytest.mark.parametrize(
    ("arguments", "stdin", "sentence"),
    [
        ([], b"", "There is no question"),
        (["-q", "-"], b" \n", "no question"),
        ([], b"\xff", "not UTF-8"),
    ],
)
async def test_nothing_to_ask(home: Path, arguments: list[str], stdin: bytes, sentence: str) -> None:
    """A usage error, before anything is loaded or created."""
    refused = await Shell(home, {}).chat(*arguments, stdin=stdin)
    assert refused.code == 2
    assert sentence in refused.stderr
    assert not (home / "state.db").exists()


async def test_interrupting_a_question(shell: Shell, harness: CliHarness) -> None:
    """Ctrl-C ends the turn in the gateway too, and the program with the exit code shells expect."""
    gate = Gate()
    harness.will(["Once upon", gate])
    process = await shell.start("-q", "tell me a story")
    assert process.stdin and process.stdout
    process.stdin.close()
    assert await process.stdout.readexactly(9) == b"Once upon"
    process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), 30) == 130
    (chat,) = await harness.store.sessions.conversations()
    assert [message.content for message in await harness.store.sessions.transcript(chat.conversation.id)][
        1:
    ] == ["Once upon"]


async def test_a_conversation_in_the_terminal(shell: Shell, harness: CliHarness, door: WebPlatform) -> None:
    """Greeting, streamed Markdown, a second line, a tool, a command, leaving; then it goes on with its history."""
    harness.will(["# Tea\n\nLet me look.\n", LOOK_UP], "It is **a drink**:\n\n- hot\n- cold\n")
    async with shell.terminal() as terminal:
        await terminal.until("Ctrl-D: leave\n\n›")
        assert terminal.screen.lines[0] == f"Connected to Hermes at {door.where}; /status shows its model."
        terminal.type("Tell me\x1b\rabout tea\r")
        await terminal.until("• cold\n\n›")
        assert terminal.screen.text.endswith(
            "› Tell me\n  about tea\n\nTea\n\nLet me look.\n\n✓ look_up tea · 0.0 s\n\n"
            "It is a drink:\n\n • hot\n • cold\n\n›"
        )
        terminal.type("/he")
        await terminal.until("what you can type")
        terminal.type("lp\r")
        await terminal.until("/status: model, session and context engine")
        terminal.type("/exit\r")
        assert await terminal.ended() == 0
    assert stat.S_IMODE((shell.home / "chat_history").stat().st_mode) == 0o600

    async with shell.terminal() as terminal:
        await terminal.until("›")
        terminal.type("\x1b[A" * 3)
        await terminal.until("› Tell me\n  about tea")
        terminal.type("\x03")
        await terminal.until(lambda screen: screen.lines[-1] == "›")
        terminal.type("and coffee?\r")
        await terminal.until("You said: and coffee?\n\n›")
        terminal.type("\x04")
        assert await terminal.ended() == 0
    assert harness.told() == ["Tell me\nabout tea", "and coffee?"]


async def test_ctrl_c_stops_the_answer_and_not_the_program(shell: Shell, harness: CliHarness) -> None:
    """What was written stays on the screen and in the history; the next question is answered."""
    harness.will(["Once upon a", Gate(), " time"])
    async with shell.terminal() as terminal:
        await terminal.until("›")
        terminal.type("A story\r")
        await terminal.until("Once upon a\n")
        terminal.type("\x03")
        await terminal.until("Once upon a\n\nStopped.\n\n›")
        terminal.type("Never mind\r")
        await terminal.until("You said: Never mind\n\n›")
        terminal.type("\x03")
        await terminal.until("Press Ctrl-D or enter /exit to leave.")
        terminal.type("\x04")
        assert await terminal.ended() == 0
    told = [message["content"] for message in harness.llm.requests[-1].messages[1:]]
    assert told == ["A story", "Once upon a", "Never mind"]


async def test_a_long_answer_leaves_no_trace_of_its_making(shell: Shell, harness: CliHarness) -> None:
    """After many redraws each line is in the scrollback exactly once, and keys pressed meanwhile are in the prompt:
    none is echoed into the answer, none is lost.
    """
    paragraphs = [f"Paragraph {number} of the long answer, which ends here." for number in range(60)]
    items = [f"- item {number}." for number in range(60)]
    harness.will("\n\n".join([*paragraphs, "\n".join(items)]))
    async with shell.terminal() as terminal:
        await terminal.until("›")
        terminal.type("Go on\r")
        for number, key in enumerate("typed meanwhile"):
            await terminal.until(f"Paragraph {number} of")
            terminal.type(key)
        await terminal.until("• item 59.\n\n› typed meanwhile")
        answer = [
            line.strip() for line in terminal.screen.text.partition("› Go on\n")[2].splitlines() if line
        ]
        assert answer == [*paragraphs, *(f"• item {number}." for number in range(60)), "› typed meanwhile"]


async def test_a_message_while_the_agent_works(shell: Shell, harness: CliHarness) -> None:
    """What is typed during a turn reaches the model at its next step, and the screen says so."""
    gate = Gate()
    harness.will([gate, "Looking.", LOOK_UP])
    async with shell.terminal() as terminal:
        await terminal.until("›")
        terminal.type("What is tea?\r")
        await gate.reached.wait()
        terminal.type("in French please\r")
        await terminal.until("› in French please\n")
        await harness.gateway.arrival_of("in French please")
        gate.set()
        await terminal.until("↳ read now: in French please")
        await terminal.until("You said: in French please\n\n›")


async def test_two_windows_on_one_chat(shell: Shell, harness: CliHarness) -> None:
    """What is said in one is seen in the other; what was typed here is not shown twice."""
    async with shell.terminal() as first, shell.terminal() as second:
        await first.until("›")
        await second.until("›")
        first.type("hello\r")
        await first.until("You said: hello\n\n›")
        await second.until("› hello\n\nYou said: hello\n\n›")
        assert first.screen.text.count("› hello") == 1


async def test_a_gateway_that_goes_away(shell: Shell, door: WebPlatform) -> None:
    """The chat ends with a sentence instead of waiting for ever."""
    async with shell.terminal() as terminal:
        await terminal.until("›")
        await door.stop()
        await terminal.until("hermes: The Hermes this chat was connected to has stopped.")
        assert await terminal.ended() == 1


async def test_a_wrong_token_is_named(home: Path, harness: CliHarness) -> None:
    """The configured token opens the gateway; another one is refused with a sentence."""
    async with serving(harness.gateway, token="a-long-secret-token") as door:
        port = int(door.where.rpartition(":")[2])
        right = Shell(home, {"platforms": {"web": {"port": port, "token": "a-long-secret-token"}}})
        assert (await right.chat("-q", "hello")).stdout == "You said: hello\n"
        wrong = Shell(home, {"platforms": {"web": {"port": port, "token": "another-token"}}})
        refused = await wrong.chat("-q", "hello")
    assert refused.code == 1
    assert "platforms.web.token" in refused.stderr


async def test_a_running_gateway_without_a_door(home: Path, in_use: None) -> None:
    """Its web platform is off: the sentence about the state directory, not one about connections."""
    refused = await Shell(home, {"platforms": {"web": {"enabled": False}}}).chat("-q", "hello")
    assert refused.code == 1
    assert refused.stderr.startswith("hermes: Another Hermes is using this state directory")


async def test_the_hermes_of_another_state_directory(home: Path, in_use: None, tmp_path: Path) -> None:
    """It answers on the configured port, and yet it is not the one that has our conversations."""
    await (await SqliteStore.open(home / "state.db")).close()
    async with serving(CliHarness(tmp_path, await temporary_store()).gateway) as door:
        shell = Shell(home, {"platforms": {"web": {"port": int(door.where.rpartition(":")[2])}}})
        refused = await shell.chat("-q", "hello")
    assert refused.code == 1
    assert refused.stderr.startswith("hermes: Another Hermes is using this state directory")


async def test_the_agent_in_this_process(home: Path) -> None:
    """With no gateway running, chat is the agent: its history is there at the next start, its log in a file."""
    async with FakeOpenAI() as server:
        model = {"name": "openai/test", "base_url": server.base_url, "api_key": server.api_key}
        shell = Shell(home, {"model": {**model, "context_length": 32_000}})
        assert (await shell.chat("--chat", "main", stdin=b"one\n")).stdout == "You said: one\n"
        async with shell.terminal() as terminal:
            await terminal.until("›")
            assert "openai/test" in terminal.screen.lines[0]
            assert "You: one\n\nYou said: one\n\n›" in terminal.screen.text, (
                "what was said last, whoever saw it then"
            )
            terminal.type("two\r")
            await terminal.until("You said: two\n\n›")
            terminal.type("\x04")
            assert await terminal.ended() == 0
        told = [message["content"] for message in server.requests[-1].body["messages"][1:]]
        assert told == ["one", "You said: one", "two"]
    assert "turn.done" in (home / "chat.log").read_text()
    assert stat.S_IMODE((home / "chat.log").stat().st_mode) == 0o600
