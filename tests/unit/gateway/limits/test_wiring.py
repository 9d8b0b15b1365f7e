"""The limits where they are put in: the real composition, the page, `hermes doctor`."""

from __future__ import annotations

from pathlib import Path

from agent.llm import ChatRequest
from gateway.cli.doctor_checks_agent import limits as examined
from gateway.config.schema import Config, LimitsConfig
from gateway.limits import Limits
from gateway.platforms.base import Finding
from tests.support.web_harness import web_harness

ASK = ChatRequest([{"role": "user", "content": "hi"}])


def test_doctor_says_nothing_where_there_is_no_cap() -> None:
    """Most people have none."""
    assert list(examined(Config())) == []


def _examined(limits: dict[str, object], **sections: object) -> list[Finding]:
    return list(examined(Config.model_validate({"limits": limits, **sections})))


def test_doctor_names_the_caps() -> None:
    """A free model, and one whose price is known, need no warning."""
    caps = {"daily_usd_per_person": 0.5, "daily_usd_total": 5}
    sentence = (
        "daily budget: $0.50 for each person and $5.00 for everyone, from midnight to midnight, local time"
    )
    for model in (
        {"name": "embedded/smollm2"},
        {"name": "openai/gpt-4.1-mini"},
        {"name": "openrouter/somebody/something"},
        {"name": "openai/house-model", "base_url": "http://127.0.0.1:1234/v1"},
        {"name": "ollama/house-model"},
    ):
        assert _examined(caps, model=model) == [Finding("ok", sentence)]


def test_doctor_warns_of_prices_that_nobody_knows() -> None:
    """Of every model that is asked: fallbacks, summaries and voice among them."""
    base_url = "http://models.example/v1"
    findings = _examined(
        {"daily_usd_total": 5, "unknown_price": 3},
        model={
            "name": "openai/house-model",
            "base_url": base_url,
            "fallbacks": ["openai/gpt-4.1-mini", "openai/second"],
        },
        auxiliary={"compression": {"model": "openai/third"}, "transcription": {"model": "openai/fourth"}},
    )
    assert [finding.level for finding in findings] == ["ok", "warn"]
    assert findings[1].text == (
        "the price of openai/house-model, openai/second, openai/third, openai/fourth is not known; against the daily "
        "budget it counts as $3.00 per million tokens (limits.unknown_price)"
    )


async def test_the_page_is_told_when_it_sends_too_much(tmp_path: Path) -> None:
    """With a status and a header that programs understand; `/stop` still gets through, and nothing is stored."""
    async with web_harness(tmp_path) as harness:
        harness.gateway.limits = Limits(LimitsConfig(owner_messages_per_minute=2), harness.store.sessions)
        chat = await harness.open()
        path = f"{harness.url}/api/conversations/{chat.id}/messages"
        for _ in range(2):
            await chat.ask("hi")
        async with harness.http.post(path, json={"text": "hi"}) as response:
            assert response.status == 429 and 1 <= int(response.headers["Retry-After"]) <= 30
            assert "Hermes accepts 2 a minute" in (await response.json())["error"]
        async with harness.http.post(path, json={"text": "/stop"}) as response:
            assert response.status == 202
        assert len(await chat.transcript()) == 4
