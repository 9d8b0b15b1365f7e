"""The path of one message, told as a story: the real process, a real HTTP client, a real model server.

Read this first. Everything else is detail.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Call
from tests.support import warm
from tests.support.hermes_process import HermesProcess, WebClient, environment, hermes
from tests.support.warm import HERMES


def _config(server: FakeOpenAI) -> dict[str, Any]:
    return {"model": {"name": "openai/test-model", "base_url": server.base_url, "api_key": server.api_key}}


def _text(events: list[dict[str, Any]]) -> str:
    return "".join(event["text"] for event in events if event["type"] == "TextDelta")


def _run_cli(process: HermesProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run(
        [*HERMES, "--config", str(process.config_path), *arguments], env=environment(process.home)
    )


def _cli(process: HermesProcess, *arguments: str) -> str:
    done = _run_cli(process, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_one_message(tmp_path: Path) -> None:
    """Ada asks, the agent writes a note with a tool, answers, and everything is there after a restart."""
    async with FakeOpenAI() as server, hermes(tmp_path / "home", _config(server), cold=True) as process:
        # At the start Hermes says where it is and which model answers.
        start = "".join(process.output)
        assert "openai/test-model" in start
        assert process.url in start

        # Ada opens the chat and asks for something that takes a tool.
        server.reply(
            text="I will write that down.",
            tool_calls=[Call("write_file", {"path": "shopping.md", "content": "- oat milk\n"})],
        )
        server.reply(text="Noted: oat milk.")
        async with WebClient.open(process.url, "kitchen") as ada:
            events = await ada.say("Please note that we need oat milk.")

        # She saw the answer grow, the tool at work, and the end.
        kinds = [event["type"] for event in events]
        assert kinds[0] == "TurnStarted"
        assert kinds[-1] == "TurnDone", events[-1]
        assert kinds.index("ToolStarted") < kinds.index("ToolFinished")
        assert _text(events) == "I will write that down.Noted: oat milk."

        # The tool wrote into the conversation's own folder, and nowhere else.
        [note] = (tmp_path / "home" / "workspaces").rglob("shopping.md")
        assert note.read_text() == "- oat milk\n"
        assert note.parent.name == ada.conversation_id

        # The model was given the system prompt, her words, and then its own call with the result.
        first, second = (request.body for request in server.requests)
        assert [message["role"] for message in first["messages"]] == ["system", "user"]
        assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "tool"]
        assert second["messages"][:2] == first["messages"], "each request extends the one before"

        # Hermes is stopped and started again; the conversation goes on where it was.
        await process.restart()
        server.reply(text="Oat milk.")
        async with WebClient.open(process.url, "kitchen") as ada:
            assert [message["role"] for message in await ada.transcript()] == [
                "user", "assistant", "tool", "assistant",
            ]  # fmt: skip
            events = await ada.say("What did we need?")
        assert _text(events) == "Oat milk."
        third = server.requests[-1].body["messages"]
        assert third[: len(second["messages"])] == second["messages"], (
            "the prefix survives a restart byte for byte"
        )

        # From the command line, while the gateway runs: list, search, export.
        [listed] = json.loads(_cli(process, "sessions", "list", "--json"))
        assert listed["id"] == ada.conversation_id
        assert "oat milk" in _cli(process, "sessions", "search", "needing milk")
        exported = [json.loads(line) for line in _cli(process, "sessions", "export", "latest").splitlines()]
        assert len([line for line in exported if line.get("role")]) == 6

        assert await process.stop() == 0

    # On disk: immutable rows in order, one live session, usage of all three calls.
    with sqlite3.connect(tmp_path / "home" / "state.db") as db:
        roles = [role for (role,) in db.execute("SELECT role FROM messages ORDER BY seq")]
        assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant"]
        assert db.execute("SELECT count(*) FROM model_calls").fetchone() == (3,)
        with pytest.raises(sqlite3.DatabaseError, match=r"immutable|never"):
            db.execute("UPDATE messages SET content = 'forged'")


async def test_a_second_process_is_refused(tmp_path: Path) -> None:
    """Two gateways on one state directory would answer twice; the second one says what to do and ends with 1."""
    async with FakeOpenAI() as server, hermes(tmp_path / "home", _config(server)) as process:
        second = await asyncio.to_thread(_run_cli, process, "run")
        assert second.returncode == 1
        assert "Another Hermes is using this state directory" in second.stderr
        assert "Traceback" not in second.stderr


async def test_a_refused_key_is_a_sentence_and_the_chat_goes_on(tmp_path: Path) -> None:
    """A wrong key costs one turn, not the conversation, and is never shown."""
    async with FakeOpenAI() as server, hermes(tmp_path / "home", _config(server)) as process:
        server.fail(status=401)
        server.reply(text="Hello Ada.")
        async with WebClient.open(process.url, "kitchen") as ada:
            events = await ada.say("Hello?")
            assert events[-1]["type"] == "TurnFailed"
            assert "refused the key" in events[-1]["error"]
            assert _text(await ada.say("Again?")) == "Hello Ada."
        assert server.api_key not in json.dumps(events) + "".join(process.output)


async def test_stop_ends_the_model_call(tmp_path: Path) -> None:
    """Stop closes the request at the provider, keeps what was said, and the next message is answered."""
    async with FakeOpenAI() as server, hermes(tmp_path / "home", _config(server)) as process:
        server.reply(text="Once upon a time there was", hold=True, after=3)
        async with WebClient.open(process.url, "kitchen") as ada:
            await ada.send("A story, please.")
            seen = []
            async for event in ada.events():
                seen.append(event)
                if event["type"] == "TextDelta" and _text(seen).startswith("Once upon a"):
                    assert await ada.stop()
                if event["type"] == "TurnDone":
                    break
            assert seen[-1]["stopped"]
            stored = (await ada.transcript())[-1]
            assert stored["content"] == _text(seen)
            server.reply(text="Good night.")
            assert _text(await ada.say("Thanks")) == "Good night."
