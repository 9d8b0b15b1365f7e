"""`hermes chat` as a person meets it: real processes, pipes and a pseudo-terminal, a model server on loopback."""

from __future__ import annotations

import asyncio
import signal
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Any

import pytest
import yaml

from tests.worlds.hermes_process import environment, hermes
from tests.worlds.openai import OpenAIWorld
from tests.worlds.script import Call
from tests.worlds.terminal import Terminal


@dataclass(frozen=True)
class Ended:
    code: int
    stdout: str
    stderr: str


class Shell:
    """A state directory, a configuration that points at the model server, and the command."""

    def __init__(self, home: Path, world: OpenAIWorld) -> None:
        home.mkdir(parents=True)
        self.home = home
        self.world = world
        self.config: dict[str, Any] = {
            "model": {
                "name": "openai/test-model",
                "base_url": world.base_url,
                "api_key": world.api_key,
                "context_length": 32_000,
            },
            "platforms": {"web": {"port": _free_port()}},
        }
        self.write_config()

    def write_config(self) -> None:
        (self.home / "hermes.yaml").write_text(yaml.safe_dump(self.config))

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "gateway.cli", "--config", str(self.home / "hermes.yaml"), "chat"]

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *self.command, *arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=environment(self.home)
        )

    async def chat(self, *arguments: str, stdin: str = "") -> Ended:
        process = await self.start(*arguments)
        stdout, stderr = await asyncio.wait_for(process.communicate(stdin.encode()), 60)
        return Ended(process.returncode or 0, stdout.decode(), stderr.decode())

    def terminal(self, *arguments: str) -> AbstractAsyncContextManager[Terminal]:
        return Terminal.run(*self.command, *arguments, env=environment(self.home))

    def said_to_the_model(self, request: int = -1) -> list[str]:
        messages = self.world.requests[request].body["messages"]
        return [message["content"] for message in messages if message["role"] == "user"]


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with OpenAIWorld() as world:
        yield Shell(tmp_path / "home", world)


def _free_port() -> int:
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_one_question(shell: Shell) -> None:
    """The answer, and nothing but the answer, is on standard output; tools are told of on the other one."""
    shell.world.reply("Let me note it.", tool_calls=[Call("memory", {"action": "add", "text": "likes tea"})])
    shell.world.reply("Noted: \x1b[1mtea\x1b[0m.")
    asked = await shell.chat("-q", "I like tea", stdin="")
    assert asked.code == 0
    assert asked.stdout == "Let me note it.\nNoted: \x1b[1mtea\x1b[0m.\n"
    assert asked.stderr.startswith("memory ")
    assert asked.stderr.count("\n") == 1


async def test_questions_from_a_pipe(shell: Shell) -> None:
    """A pipe is the question, or stands below the one given with -q; each question begins afresh."""
    assert (await shell.chat(stdin="just this\n")).stdout == "You said: just this\n"
    await shell.chat("-q", "-", stdin="with a dash\n")
    assert shell.said_to_the_model() == ["with a dash"]
    await shell.chat("-q", "Summarise:", stdin="line one\nline two\n")
    assert shell.said_to_the_model() == ["Summarise:\n\nline one\nline two"]


async def test_a_named_chat_goes_on(shell: Shell) -> None:
    """`--chat` remembers across processes until `--new`, and commands are answered on standard output."""
    await shell.chat("--chat", "work", "-q", "one")
    await shell.chat("--chat", "work", "-q", "two")
    assert shell.said_to_the_model() == ["one", "two"]
    renewed = await shell.chat("--chat", "work", "--new", "-q", "three")
    assert shell.said_to_the_model() == ["three"]
    assert renewed.stdout == "You said: three\n"
    status = await shell.chat("--chat", "work", "-q", "/status")
    assert status.stdout.startswith("Model: openai/test-model")
    assert (await shell.chat("--chat", "work", "-q", "/stop")).stdout == "Nothing is running.\n"


async def test_a_question_that_fails(shell: Shell) -> None:
    """One sentence on standard error, exit code 1, nothing on standard output."""
    shell.world.fail(401)
    failed = await shell.chat("-q", "anyone there?")
    assert (failed.code, failed.stdout) == (1, "")
    assert failed.stderr.startswith("hermes: The model provider refused the key")
    assert failed.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "stdin", "sentence"),
    [
        ([], b"", "There is nothing to ask"),
        (["-q", "-"], b" \n", "nothing to ask"),
        ([], b"\xff", "not UTF-8"),
    ],
)
async def test_nothing_to_ask(shell: Shell, arguments: list[str], stdin: bytes, sentence: str) -> None:
    """A usage error, before anything is loaded or created."""
    process = await shell.start(*arguments)
    _, stderr = await process.communicate(stdin)
    assert process.returncode == 2
    assert sentence in stderr.decode()
    assert not (shell.home / "state.db").exists()


async def test_interrupting_a_question(shell: Shell) -> None:
    """Ctrl-C ends the request to the model and the program, with the exit code shells expect."""
    shell.world.hang("Once upon a time", after=2)
    process = await shell.start("-q", "tell me a story")
    assert process.stdin and process.stdout
    process.stdin.close()
    assert await process.stdout.readexactly(9) == b"Once upon"
    process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), 30) == 130
    await shell.world.disconnected()


async def test_a_conversation_in_the_terminal(shell: Shell) -> None:
    """Greeting, streamed Markdown, a second line, a command, leaving; the next run goes on and knows the history."""
    shell.world.reply("# Paris\n\nIt is **big**.\n\n- one\n- two\n")
    async with shell.terminal() as terminal:
        await terminal.until("Ctrl-D: leave\n\n›")
        assert "openai/test-model" in terminal.screen.lines[0]
        terminal.type("Tell me\x1b\rabout Paris\r")
        await terminal.until("• two\n\n›")
        assert terminal.screen.text.endswith(
            "› Tell me\n  about Paris\n\nParis\n\nIt is big.\n\n • one\n • two\n\n›"
        )
        terminal.type("/help\r")
        await terminal.until("/status: model, window and usage")
        terminal.type("/exit\r")
        assert await terminal.ended() == 0
    assert shell.said_to_the_model() == ["Tell me\nabout Paris"]
    history = shell.home / "chat_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600

    async with shell.terminal() as terminal:
        await terminal.until("›")
        terminal.type("\x1b[A\x1b[A")
        await terminal.until("› Tell me\n  about Paris")
        terminal.type("\x03")
        await terminal.until(lambda screen: screen.lines[-1] == "›")
        terminal.type("and London?\r")
        await terminal.until("You said: and London?\n\n›")
        terminal.type("\x04")
        assert await terminal.ended() == 0
    assert shell.said_to_the_model() == ["Tell me\nabout Paris", "and London?"]


async def test_ctrl_c_stops_the_answer_and_not_the_program(shell: Shell) -> None:
    """What was written stays on the screen and in the history; the next question is answered."""
    shell.world.hang("Once upon a time there was", after=3)
    async with shell.terminal() as terminal:
        await terminal.until("›")
        terminal.type("A story\r")
        await terminal.until("Once upon a\n")
        await shell.world.waiting()
        terminal.type("\x03")
        await terminal.until("Once upon a\n\nStopped.\n\n›")
        await shell.world.disconnected()
        terminal.type("Never mind\r")
        await terminal.until("You said: Never mind\n\n›")
        terminal.type("\x03")
        await terminal.until("Ctrl-D or /exit leaves.")
        terminal.type("\x04")
        assert await terminal.ended() == 0
    told = [message["content"] for message in shell.world.requests[-1].body["messages"][1:]]
    assert told == ["A story", "Once upon a", "Never mind"]


async def test_a_long_answer_leaves_no_trace_of_its_making(shell: Shell) -> None:
    """Drawn in pieces, scrolled and redrawn many times, each line stands in the scrollback exactly once."""
    paragraphs = [f"Paragraph {number} of the long answer, which ends here." for number in range(60)]
    shell.world.reply(
        "\n\n".join(paragraphs) + "\n\n" + "\n".join(f"- item {number}." for number in range(60))
    )
    async with shell.terminal() as terminal:
        await terminal.until("›")
        terminal.type("Go on\r")
        await terminal.until("• item 59.\n\n›")
        answer = [
            line.strip() for line in terminal.screen.text.partition("› Go on\n")[2].splitlines() if line
        ]
        assert answer == [*paragraphs, *(f"• item {number}." for number in range(60)), "›"]


async def test_a_message_while_the_agent_works(shell: Shell) -> None:
    """What is typed during a turn reaches the model at its next step, and the screen says so."""
    shell.world.hang("Noting it.", tool_calls=[Call("todo", {"action": "list"})], after=0)
    async with shell.terminal() as terminal:
        await terminal.until("›")
        terminal.type("What is to do?\r")
        await shell.world.waiting()
        terminal.type("in French please\r")
        await terminal.until("› in French please\n")
        shell.world.release()
        await terminal.until("↳ taken in: in French please")
        await terminal.until("You said: in French please\n\n›")


async def test_chat_joins_a_gateway_that_is_running(shell: Shell) -> None:
    """The state directory is taken, so chat talks to the gateway that has it: one agent, one history."""
    async with hermes(shell.home, shell.config) as gateway:
        assert (await shell.chat("--chat", "main", "-q", "from a pipe")).stdout == "You said: from a pipe\n"
        async with shell.terminal() as terminal:
            await terminal.until(f"Connected to the Hermes that is running at {gateway.url}.")
            shell.world.hang("Once upon a time", after=2)
            terminal.type("from the terminal\r")
            await terminal.until("Once upon\n")
            terminal.type("\x03")
            await terminal.until("Stopped.\n\n›")
            assert await gateway.stop() == 0
            await terminal.until("The Hermes this chat was connected to has stopped.")
            assert await terminal.ended() == 1
    assert shell.said_to_the_model() == ["from a pipe", "from the terminal"]


async def test_a_running_gateway_without_a_door(shell: Shell) -> None:
    """Its web platform is off: the sentence about the state directory, not a connection error."""
    shell.config["platforms"]["web"]["enabled"] = False
    shell.write_config()
    async with shell.terminal() as first:
        await first.until("›")
        refused = await shell.chat("-q", "hello")
    assert refused.code == 1
    assert refused.stderr.startswith("hermes: Another Hermes is using this state directory")


async def test_a_token_is_used_and_a_wrong_one_is_named(shell: Shell) -> None:
    """The configured token opens the gateway; another one is refused with a sentence."""
    shell.config["platforms"]["web"]["token"] = "a-long-secret-token"
    async with hermes(shell.home, shell.config):
        assert (await shell.chat("-q", "hello")).stdout == "You said: hello\n"
        shell.config["platforms"]["web"]["token"] = "another-token"
        shell.write_config()
        refused = await shell.chat("-q", "hello")
    assert refused.code == 1
    assert "platforms.web.token" in refused.stderr
