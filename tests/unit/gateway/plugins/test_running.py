"""Plugins inside the real gateway."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from agent.untrusted import without_marks
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Call, Reply
from tests.support.foreign_plugins import ENGINE, WITH_OPTIONS, engine_config, write_engine, write_plugin
from tests.support.hermes_process import WebClient, hermes
from tests.support.ordinary_user import hermes as run_hermes

DROPPING = """
import json
from .base import Engine


class Dropping(Engine):
    "Keeps the system prompt and the last two messages. No optional argument anywhere, no **kwargs."

    def should_compress(self, prompt_tokens):
        return prompt_tokens > 600

    def compress(self, messages):
        self.compression_count += 1
        return messages[:1] + messages[-2:]

    def on_session_start(self, session_id):
        self.seen.append(session_id)

    def get_tool_schemas(self):
        return [{"name": "sessions_seen", "description": "Counts.", "parameters": {"type": "object", "properties": {}}}]

    def handle_tool_call(self, name, args):
        return json.dumps({"seen": len(self.seen), "compactions": self.compression_count})


def register(ctx):
    ctx.register_context_engine(Dropping(context_length=200000))
"""


def contents(request: Any) -> list[str]:
    return [str(message["content"]) for message in request.body["messages"]]


@pytest.mark.parametrize("place", ["folder", "general plugin"])
async def test_a_strangers_engine_runs_unchanged(tmp_path: Path, place: str) -> None:
    """It compacts, its tool works, and each conversation has its own instance."""
    home = tmp_path / "home"
    more: dict[str, Any] = {}
    if place == "folder":
        write_engine(home, "from .parts import register\n", base=ENGINE, parts=DROPPING)
    else:
        write_plugin(home, "from .parts import register\n", base=ENGINE, parts=DROPPING)
        more = {"plugins": {"enabled": ["acme"]}}
    answers = []
    async with (
        FakeOpenAI(context_length=2_000) as server,
        hermes(home, engine_config(server, "mine", **more)) as process,
        WebClient.open(process.url, "long") as long,
        WebClient.open(process.url, "short") as short,
    ):
        server.script(lambda seen: Reply("Noted."))
        for number in range(4):
            assert (await long.say(f"number {number} " + "word " * 300))[-1]["type"] == "TurnDone"
        assert not any("number 0" in text for text in contents(server.requests[-1]))
        assert any("number 3" in text for text in contents(server.requests[-1]))
        assert any("number 0" in message["content"] for message in await long.transcript()), "it is kept"
        for client in (long, short):
            server.reply(tool_calls=[Call("sessions_seen", {})])
            assert (await client.say("How many?"))[-1]["type"] == "TurnDone"
            answers.append(json.loads(without_marks(server.requests[-1].body["messages"][-1]["content"])))
    assert [tool["function"]["name"] for tool in server.requests[0].body["tools"]] == ["sessions_seen"]
    assert answers[0]["compactions"] >= 1 and answers[0]["seen"] >= 2
    assert answers[1] == {"seen": 1, "compactions": 0}


async def test_a_hint_is_for_the_model_alone(tmp_path: Path) -> None:
    """Only the provider gets it, behind the message, and without ids."""
    hint = "    def hint(self, messages):\n        return f'[xylophone {len(messages)}]'\n"
    write_engine(tmp_path / "home", ENGINE + hint)
    async with (
        FakeOpenAI(context_length=2_000) as server,
        hermes(tmp_path / "home", engine_config(server, "mine")) as process,
        WebClient.open(process.url, "a") as client,
    ):
        server.script(lambda seen: Reply("Noted."))
        events = [*await client.say("first"), *await client.say("second")]
        shown = await client.transcript()
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"{process.url}/c/{client.conversation_id}") as page,
        ):
            html = await page.text()
    assert not any(request.refused for request in server.requests)
    assert contents(server.requests[-1])[1:] == [
        "first",
        "[xylophone 2]",
        "Noted.",
        "second",
        "[xylophone 5]",
    ]
    assert not any(
        key in message
        for message in server.requests[-1].body["messages"]
        for key in ("message_id", "created_at")
    )
    assert [message["content"] for message in shown] == ["first", "Noted.", "second", "Noted."]
    assert page.status == 200 and "second" in html
    assert "xylophone" not in f"{events} {html}"


async def test_the_example_engine_keeps_a_conversation_going(tmp_path: Path) -> None:
    """Thirty messages pass through a window for about six."""
    async with (
        FakeOpenAI(context_length=2_000) as server,
        hermes(tmp_path / "home", engine_config(server, "sliding_window")) as process,
        WebClient.open(process.url, "long") as client,
    ):
        server.script(lambda seen: Reply("Noted."))
        for number in range(30):
            events = await client.say(f"number {number} " + "word " * 200)
            assert events[-1]["type"] == "TurnDone", events[-1]
        said = [message["content"][:9] for message in await client.transcript() if message["role"] == "user"]
    assert len(said) == 30
    assert not any(request.refused for request in server.requests)
    assert max(len(request.body["messages"]) for request in server.requests) < 12
    assert "left out to save space" in contents(server.requests[-1])[0]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"context": {"engine": "sliding_window", "options": {"depth": 3}}},
            ["hermes.yaml:3: context.options: the engine `sliding_window` takes none"],
        ),
        (
            {"context": {"engine": "mine", "options": {"dept": 3}}},
            ["hermes.yaml:3: `context.options` has no `dept`."],
        ),
        ({"plugins": {"enabled": ["bad"]}}, ["`bad` in", "no_such_library", "Traceback"]),
        ({"plugins": {"enabled": ["gone"]}}, ["There is no `gone` in"]),
    ],
)
def test_what_cannot_run_stops_the_start(
    private_home: Path, settings: dict[str, Any], words: list[str]
) -> None:
    """The exit code is 2. For engines see `test_fallback.py`."""
    write_engine(private_home, WITH_OPTIONS)
    write_plugin(private_home, "import no_such_library\n", "bad")
    file = private_home / "hermes.yaml"
    file.write_text(yaml.safe_dump({"platforms": {"web": {"enabled": False}}, **settings}))
    refused = run_hermes("--config", str(file), "run")
    assert refused.returncode == 2
    for word in words:
        assert word in refused.stderr


async def test_hooks_hear_the_turns(tmp_path: Path) -> None:
    code = """
from pathlib import Path

def note(**data):
    with (Path(__file__).parent / "heard.txt").open("a") as file:
        file.write(" ".join(sorted(data)) + "\\n")

def register(ctx):
    ctx.register_hook("turn_done", note)
"""
    folder = write_plugin(tmp_path / "home", code)
    async with FakeOpenAI() as server:
        settings = engine_config(server, "compressor", plugins={"enabled": ["acme"]})
        async with hermes(tmp_path / "home", settings) as process, WebClient.open(process.url, "a") as client:
            await client.say("hello")
            await client.say("again")
    heard = await asyncio.to_thread((folder / "heard.txt").read_text)
    assert heard.splitlines()[0] == "conversation_id message_id platform stopped"
