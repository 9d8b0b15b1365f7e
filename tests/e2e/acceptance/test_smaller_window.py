"""A model that holds less than believed: the conversation goes on by the real window, and the owner is told."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.model_server import Refused
from tests.fakes.openai.server import FakeOpenAI
from tests.support.hermes_process import HermesProcess, environment, hermes
from tests.support.lineage import sound_lineages
from tests.support.long_chat import Chat, Correspondent, answer, chat, question, small_window
from tests.support.warm import HERMES

TURNS = 26
"""Enough to fill 8k three times."""
MODEL = "openai/test-model"


class WithoutNumbers(FakeOpenAI):
    """Says that it is too much, and not how much would be right."""

    def account(self, body: dict[str, Any]) -> dict[str, Any]:
        try:
            return super().account(body)
        except Refused:
            raise Refused(
                "Please reduce the length of the messages.", code="context_length_exceeded"
            ) from None


class WithoutReasons(FakeOpenAI):
    """Refuses, and does not say why."""

    def account(self, body: dict[str, Any]) -> dict[str, Any]:
        try:
            return super().account(body)
        except Refused:
            raise Refused("Bad Request") from None


def _believing(server: FakeOpenAI, window: int) -> dict[str, Any]:
    config = small_window(server)
    config["model"]["context_length"] = window
    return config


async def _talk(person: Chat, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Every question is answered; gives all events."""
    events: list[dict[str, Any]] = []
    for number in numbers:
        turn = await person.say(question(number))
        assert turn[-1]["type"] == "TurnDone", turn[-1]
        assert turn[-1]["text"] == answer(number)
        events += turn
    return events


async def _told(person: Chat, command: str) -> str:
    return "\n".join(event["text"] for event in await person.say(command) if event["type"] == "Notice")


def _nothing_is_lost(home: Path, transcript: list[dict[str, Any]], turns: int) -> None:
    said = [(message["role"], message["content"]) for message in transcript]
    asked = [
        (role, text)
        for number in range(turns)
        for role, text in (("user", question(number)), ("assistant", answer(number)))
    ]
    assert said == asked
    assert all(lineage.splits >= 1 for lineage in sound_lineages(home / "state.db").values())


def _doctor(process: HermesProcess) -> str:
    done = subprocess.run(
        [*HERMES, "--config", str(process.config_path), "doctor", "--offline"],
        env=environment(process.home), capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("believed", "real"), [(131_072, 8_192), (32_768, 4_096)])
@pytest.mark.parametrize("kind", [FakeOpenAI, WithoutNumbers])
async def test_the_conversation_goes_on(
    tmp_path: Path, kind: type[FakeOpenAI], believed: int, real: int
) -> None:
    """One refusal is enough, also across a restart; `/compress`, `/status` and doctor go by what was learned."""
    home, turns = tmp_path / "home", TURNS if real > 4_096 else TURNS // 2
    async with kind(context_length=real) as server:
        server.script(Correspondent())
        async with hermes(home, _believing(server, believed)) as process:
            async with chat(process.url, "harbour") as person:
                events = await _talk(person, range(turns))
                notices = [event["text"] for event in events if event["type"] == "Notice"]
                [told] = [text for text in notices if "as believed" in text]
                assert f"not {believed:,} as believed" in told
                assert "`model.context_length: " in told
                if kind is FakeOpenAI:
                    assert f"{MODEL} holds {real:,} tokens" in told
                assert 1 <= len(server.refusals) <= 2
                status = await person.told_at_once("/status")
                assert f"{believed:,}" in status and "model.context_length" in status
            if real == 8_192:
                async with chat(process.url, "pier") as person:
                    await _talk(person, range(9))
                    assert "Compressed:" in await _told(person, "/compress"), (
                        "the believed window has room for all"
                    )
            found = await asyncio.to_thread(_doctor, process)
            assert "model.context_length" in found and f"{believed:,}" in found
            refusals = len(server.refusals)
            await process.restart()
            async with chat(process.url, "harbour") as person:
                more = await _talk(person, range(turns, turns + 8))
                assert not any("as believed" in event.get("text", "") for event in more)
                transcript = await person.transcript()
    assert len(server.refusals) == refusals, "what was learned is still known"
    _nothing_is_lost(home, transcript, turns + 8)


@pytest.mark.timeout(300)
async def test_a_refusal_without_a_reason(tmp_path: Path) -> None:
    """A compaction is tried each time the prompt has grown too long; nothing is concluded about the model."""
    home = tmp_path / "home"
    async with WithoutReasons(context_length=8_192) as server:
        server.script(Correspondent())
        async with (
            hermes(home, _believing(server, 131_072)) as process,
            chat(process.url, "harbour") as person,
        ):
            events = await _talk(person, range(TURNS))
            assert not any("as believed" in event.get("text", "") for event in events)
            transcript = await person.transcript()
    assert 1 <= len(server.refusals) <= 3
    _nothing_is_lost(home, transcript, TURNS)


@pytest.mark.timeout(300)
async def test_also_with_lcm(tmp_path: Path) -> None:
    """Any engine is told of the real window by `update_model`."""
    home = tmp_path / "home"
    async with FakeOpenAI(context_length=8_192) as server:
        server.script(Correspondent())
        config = _believing(server, 131_072) | {"context": {"engine": "lcm"}}
        async with hermes(home, config) as process, chat(process.url, "harbour") as person:
            await _talk(person, range(TURNS))
            transcript = await person.transcript()
    assert 1 <= len(server.refusals) <= 2
    _nothing_is_lost(home, transcript, TURNS)
