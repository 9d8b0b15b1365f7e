"""Conversations that outgrow the window again and again: the splits are many, and nothing is ever lost."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.ledger import split_ledger
from gateway.store import SqliteStore
from tests.worlds.hermes_process import HermesProcess, environment, hermes
from tests.worlds.lineage import sound_lineages
from tests.worlds.long_chat import (
    WINDOW,
    Correspondent,
    answer,
    chat,
    is_summary_prompt,
    question,
    small_window,
    summary,
)
from tests.worlds.model_server import Seen
from tests.worlds.openai import OpenAIWorld

TURNS = 2_000
NOTE_EVERY = 50
"""At each so many-th turn the model calls a tool, so that there are tool groups to cut around."""
INSTRUCTED_AT = 30
INSTRUCTION = "From now on, always give the times of the tides in local time."

EMBEDDED_WINDOW = 2_048


@pytest.mark.timeout(400)
async def test_two_thousand_turns(tmp_path: Path) -> None:
    """Hundreds of splits later: one unbroken line of sessions, every message in its place and found by its word."""
    model, home = Correspondent(note_every=NOTE_EVERY), tmp_path / "home"
    async with OpenAIWorld(context_length=WINDOW) as world:
        world.script(model)
        # Without the look for lasting facts, which is one more call of the model at each split.
        async with hermes(home, small_window(world, memory_flush=False)) as process:
            async with chat(process.url, "harbour") as person:
                for number in range(TURNS):
                    done = (await person.say(_asked(number)))[-1]
                    assert done["type"] == "TurnDone", done
                    assert done["text"] == answer(number)
                transcript = await person.transcript()
            await asyncio.to_thread(_some_are_found_on_the_command_line, process)

    assert world.refusals == []
    _every_request_is_in_turns(world.requests)
    _every_summary_builds_on_the_last(model.summary_prompts)
    assert [(message["role"], _word(message["content"])) for message in transcript] == _what_was_said()
    assert [message["content"] for message in transcript if message["role"] == "user"] == [
        _asked(number) for number in range(TURNS)
    ]
    [(conversation, lineage)] = sound_lineages(home / "state.db").items()
    assert lineage.splits >= 20
    assert lineage.splits == len(model.summary_prompts) or lineage.splits == len(model.summary_prompts) - 1
    await _everything_is_found(home / "state.db", conversation)
    await _the_instruction_still_stands(home / "state.db", conversation, lineage.sessions)


def _asked(number: int) -> str:
    return f"{INSTRUCTION} {question(number)}" if number == INSTRUCTED_AT else question(number)


def _what_was_said() -> list[tuple[str, str]]:
    """Role and word of every message, in order."""
    said: list[tuple[str, str]] = []
    for number in range(TURNS):
        said.append(("user", f"ask{number:04d}"))
        if number % NOTE_EVERY == 0:
            said += [("assistant", f"call{number:04d}"), ("tool", f"note{number:04d}")]
        said.append(("assistant", f"reply{number:04d}"))
    return said


def _word(text: str) -> str:
    [word] = re.findall(r"\b(?:ask|call|note|reply)\d{4}\b", text)
    return str(word)


def _every_request_is_in_turns(requests: Sequence[Seen]) -> None:
    """Person and model take turns in every request, as the stricter providers want it."""
    for seen in requests:
        sides = ["assistant" if m["role"] == "assistant" else "person" for m in seen.body["messages"][1:]]
        assert is_summary_prompt(seen) or sides[0] == "person"
        # Two results of one group would be on the same side; here each group has one call.
        assert all(one != other for one, other in pairwise(sides)), sides


def _every_summary_builds_on_the_last(prompts: Sequence[str]) -> None:
    for number, prompt in enumerate(prompts):
        assert number == 0 or f"> {summary(number).splitlines()[-1]}" in prompt


async def _everything_is_found(database: Path, conversation: str) -> None:
    """By the word that only one message has."""
    store = await SqliteStore.open(database, read_only=True)
    try:
        for role, word in _what_was_said():
            hits = await store.search(word, conversation_id=conversation)
            assert [(hit.message.role, _word(hit.message.content)) for hit in hits] == [(role, word)]
    finally:
        await store.close()


def _some_are_found_on_the_command_line(process: HermesProcess) -> None:
    """While the gateway runs: from the first session, the middle, and the last."""
    for number in (0, TURNS // 2, TURNS - 1):
        for word in (f"ask{number:04d}", f"reply{number:04d}"):
            [hit] = json.loads(_cli(process, "sessions", "search", word, "--json"))
            assert _word(hit["message"]["content"]) == word


async def _the_instruction_still_stands(database: Path, conversation: str, sessions: Sequence[str]) -> None:
    """Word for word in what the model sees, and the whole line of sessions comes from one question."""
    store = await SqliteStore.open(database, read_only=True)
    try:
        live = (await store.conversation(conversation)).live_session_id
        assert [session.id for session in await store.lineage(live)] == list(sessions)
        [written] = [m for m in await store.history(live) if m.kind == "summary" and "LEDGER" in m.content]
    finally:
        await store.close()
    assert any(INSTRUCTION in line for line in split_ledger(written.content)[1].instructions)


def _cli(process: HermesProcess, *arguments: str) -> str:
    command = [sys.executable, "-m", "gateway.cli", "--config", str(process.config_path), *arguments]
    done = subprocess.run(command, env=environment(process.home), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout
