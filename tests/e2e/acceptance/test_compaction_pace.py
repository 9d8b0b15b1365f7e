"""How often a long conversation is compacted, by a real gateway with a real model server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai.server import FakeOpenAI
from tests.support.hermes_process import hermes
from tests.support.long_chat import Correspondent, chat, question, small_window

EVERY_TOOL = [
    "fetch_url", "memory", "read_file", "search_files", "send_file", "session_search", "terminal", "todo", "write_file"
]  # fmt: skip


class AddsUp(FakeOpenAI):
    """Reports the tokens of all prompts so far, as some servers do."""

    so_far = 0

    def account(self, body: dict[str, Any]) -> dict[str, Any]:
        usage = super().account(body)
        self.so_far += usage["prompt_tokens"]
        return {**usage, "prompt_tokens": self.so_far}


class Talk:
    """A conversation of so many turns, and what it cost."""

    def __init__(self) -> None:
        self.compactions = 0
        self.notices: list[str] = []
        self.summaries = 0

    async def hold(
        self, home: Path, server: FakeOpenAI, config: dict[str, Any], *, turns: int, sentences: int
    ) -> None:
        model = Correspondent()
        server.script(model)
        async with hermes(home, config) as process, chat(process.url, "harbour") as person:
            for number in range(turns):
                events = await person.say(question(number, sentences))
                assert events[-1]["type"] == "TurnDone", events[-1]
                self.compactions += sum(event["type"] == "Compacted" for event in events)
                self.notices += [event["text"] for event in events if event["type"] == "Notice"]
        self.summaries = len(model.summary_prompts)


async def test_a_provider_that_adds_up_its_usage_causes_no_compaction(tmp_path: Path) -> None:
    """The prompt has 6,000 tokens of 40,000, and the report says 130,000."""
    talk = Talk()
    async with AddsUp(context_length=40_000) as server:
        await talk.hold(tmp_path / "home", server, small_window(server), turns=40, sentences=8)
        assert server.so_far > 100_000
    assert (talk.compactions, talk.summaries) == (0, 0)


async def test_tools_that_fill_the_window_cause_few_compactions(tmp_path: Path) -> None:
    """Compacting cannot make them smaller; the person is told once."""
    talk = Talk()
    async with FakeOpenAI(context_length=40_000) as server:
        config = small_window(server, protect_last_n=20)
        config["tools"]["enabled"] = EVERY_TOOL
        # The server takes more than this, so that nothing overflows.
        config["model"]["context_length"] = 2_000
        await talk.hold(tmp_path / "home", server, config, turns=25, sentences=2)
    assert talk.compactions <= 4
    assert len(talk.notices) == len(set(talk.notices))
    assert any("fewer tools" in notice for notice in talk.notices)


@pytest.mark.timeout(240)
async def test_a_conversation_that_fills_the_window_is_not_compacted_every_other_turn(tmp_path: Path) -> None:
    """Twenty messages of this size fill half the window alone. The step widens, and the advice comes once."""
    talk = Talk()
    async with FakeOpenAI(context_length=8_192) as server:
        config = small_window(server, protect_last_n=20)
        config["tools"]["enabled"] = EVERY_TOOL
        await talk.hold(tmp_path / "home", server, config, turns=60, sentences=40)
    assert server.refusals == []
    assert 5 <= talk.compactions <= 15
    assert talk.summaries <= 2 * talk.compactions
    [advice] = talk.notices
    assert "`compression.threshold`" in advice and "larger window" in advice
