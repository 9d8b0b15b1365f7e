"""A hostile engine inside the real process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Reply
from tests.support.foreign_plugins import ENGINE, engine_config, write_engine
from tests.support.hermes_process import WebClient, hermes

HOSTILE = """
import asyncio
import threading
from .base import Engine


class Unprintable(Exception):
    def __str__(self):
        raise SystemExit("no text")

    __repr__ = __str__


class Hostile(Engine):
    def deed(self, *args, **kwargs):
        {deed}

    {methods} = deed


__all__ = ["Hostile"]
"""
EVERYTHING = (
    "update_from_response = should_compress = compress = on_session_start = on_session_end = on_session_reset = "
    "update_model = get_tool_schemas = handle_tool_call = should_compress_preflight = hint = get_status"
)
IN_SESSION = (
    "update_from_response = should_compress = compress = on_session_end = on_session_reset = get_tool_schemas"
)


@pytest.mark.parametrize(
    ("deed", "methods"),
    [
        ("raise SystemExit(3)", EVERYTHING),
        ("raise KeyboardInterrupt", IN_SESSION),
        ("next(iter(()))", IN_SESSION),
        ("raise Unprintable", IN_SESSION),
        ("raise asyncio.CancelledError", IN_SESSION),
        ("return None", "compress"),
        ("return [{'role': 'assistant', 'tool_calls': [{'id': 'c'}]}]", "compress"),
        ("threading.Event().wait()", "should_compress"),
    ],
)
async def test_a_hostile_engine_cannot_hurt(tmp_path: Path, deed: str, methods: str) -> None:
    """Each message is stored and answered, the person is told once, and the process can be stopped."""
    code = HOSTILE.format(deed=deed, methods=methods)
    due = "\n    def should_compress(self, prompt_tokens=None):\n        return True\n"
    write_engine(tmp_path / "home", "from .parts import Hostile\n", base=ENGINE + due, parts=code)
    said = [f"number {number} " + "word " * 100 for number in range(3)]
    async with (
        FakeOpenAI(context_length=2_000) as server,
        hermes(tmp_path / "home", engine_config(server, "mine")) as process,
        WebClient.open(process.url, "a") as client,
    ):
        server.script(lambda seen: Reply("Noted."))
        events: list[dict[str, Any]] = []
        for text in (said[0], said[1], "/reset", said[2]):
            events += await client.say(text)
            assert events[-1]["type"] == "TurnDone", events[-1]
        kept = [message["content"] for message in await client.transcript()]
        assert await process.stop() == 0
    assert kept == [said[0], "Noted.", said[1], "Noted.", said[2], "Noted."]
    told = [event["text"] for event in events if event["type"] == "Notice" and "engine" in event["text"]]
    assert len(told) == 1, told
