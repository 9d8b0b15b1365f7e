"""`auxiliary.compression` in the real gateway: whom it asks, and what a person reads when its key is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fakes.openai.server import FakeOpenAI
from tests.support.hermes_process import hermes
from tests.support.long_chat import Correspondent, chat, is_summary_prompt, question, small_window


async def _compressed(home: Path, server: FakeOpenAI, auxiliary: dict[str, Any]) -> str:
    """What a person reads after `/compress`."""
    server.script(Correspondent())
    config = small_window(server) | {"auxiliary": {"compression": auxiliary}}
    async with hermes(home, config) as process, chat(process.url, "harbour") as person:
        for number in range(9):
            await person.say(question(number))
        events = await person.say("/compress")
    return "\n".join(event["text"] for event in events if event["type"] == "Notice")


async def test_summaries_are_written_where_the_main_model_is(tmp_path: Path) -> None:
    """The named model writes the summaries, and no request goes to another server."""
    async with FakeOpenAI(context_length=8_192) as server:
        told = await _compressed(tmp_path, server, {"provider": "main", "model": "openai/small"})
        assert told.startswith("Compressed:")
        by = {seen.body["model"] for seen in server.requests if is_summary_prompt(seen)}
        assert by == {"small"}


async def test_a_missing_key_is_said_by_its_name(tmp_path: Path) -> None:
    """Nothing is compacted, the notice names the variable and does not speak of an overload."""
    async with FakeOpenAI(context_length=8_192) as server:
        told = await _compressed(tmp_path, server, {"provider": "moonshot", "model": "kimi-latest"})
        assert "No key is set for this model: moonshot/kimi-latest needs MOONSHOT_API_KEY." in told
        assert "overloaded" not in told
