"""From nothing to an answer: no key, no token, the model that ships with Hermes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hermes_process import WebClient, hermes


@pytest.mark.embedded
async def test_the_embedded_model_answers(tmp_path: Path) -> None:
    """A fresh state directory and no key: the page answers, and the start says which model that is."""
    async with hermes(tmp_path / "home", {"model": {"max_tokens": 24}}, cold=True) as process:
        start = "".join(process.output)
        async with WebClient.open(process.url, "first") as person:
            events = await person.say("Say hello.")
            again = await person.say("And goodbye.")
    assert "embedded/smollm2" in start
    for turn in (events, again):
        assert turn[-1]["type"] == "TurnDone", turn[-1]
        [reported] = [event for event in turn if event["type"] == "UsageReported"]
        assert reported["usage"]["prompt_tokens"] > 10
        assert 0 < reported["usage"]["completion_tokens"] <= 24
        assert reported["context_length"] == 8192
