"""Conversations that outgrow the window again and again: the splits are many, and nothing is ever lost."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from agent.compression.ledger import split_ledger
from gateway.store.sqlite.store import SqliteStore
from tests.fakes.openai.server import FakeOpenAI
from tests.support import warm
from tests.support.hermes_process import HermesProcess, environment, hermes
from tests.support.lineage import sound_lineages
from tests.support.long_chat import WINDOW, Chat, Correspondent, answer, chat, question, small_window
from tests.support.warm import HERMES

SHORT, LONG = 120, 2_000
"""Turns. Thirty compactions are enough to see that one follows the other; hundreds are for `make test-long`."""
NOTE_EVERY = 25
"""At each so many-th turn the model calls a tool, so that there are tool groups to cut around."""
INSTRUCTED_AT = 30
INSTRUCTION = "From now on, always give the times of the tides in local time."

EMBEDDED_WINDOW = 2_048
EMBEDDED_SENTENCES = 14
"""Three such questions fill the window as far as it may be filled."""


@pytest.mark.timeout(400)
@pytest.mark.parametrize("turns", [SHORT, pytest.param(LONG, marks=pytest.mark.long)])
async def test_many_turns(tmp_path: Path, turns: int) -> None:
    """Many splits later: one unbroken line of sessions, every message in its place and found by its word."""
    model, home = Correspondent(note_every=NOTE_EVERY), tmp_path / "home"
    async with FakeOpenAI(context_length=WINDOW) as server:
        server.script(model)
        # Without the look for lasting facts, which is one more call of the model at each split.
        async with hermes(home, small_window(server, memory_flush=False)) as process:
            async with chat(process.url, "harbour") as person:
                for number in range(turns):
                    done = (await person.say(_asked(number)))[-1]
                    assert done["type"] == "TurnDone", done
                    assert done["text"] == answer(number)
                transcript = await person.transcript()
            await asyncio.to_thread(_some_are_found_on_the_command_line, process, turns)

    assert server.refusals == [], "no request was too long, none was malformed"
    for seen in server.requests:
        _takes_turns(message["role"] for message in seen.body["messages"] if message["role"] != "system")
    for number, prompt in enumerate(model.summary_prompts[1:], start=1):
        assert f"This is summary{number:04d}." in prompt, "each summary builds on the one before"

    words = _every_word(turns)
    assert [(message["role"], _word(message["content"])) for message in transcript] == words
    questions = [message["content"] for message in transcript if message["role"] == "user"]
    assert questions == [_asked(number) for number in range(turns)]

    [(conversation, lineage)] = sound_lineages(home / "state.db").items()
    assert lineage.splits >= 20
    assert set(lineage.reasons) == {"compression"}, "hygiene is for what escapes the compressor"
    async with _opened(home / "state.db") as store:
        await _each_is_found(store, conversation, words)
        assert [session.id for session in await store.sessions.lineage(lineage.live)] == lineage.sessions
        context = await store.sessions.history(lineage.live)
    [ledger] = [split_ledger(message.content)[1] for message in context if "LEDGER" in message.content]
    assert any(INSTRUCTION in line for line in ledger.instructions), "what was asked for good still stands"


@pytest.mark.embedded
@pytest.mark.timeout(400)
@pytest.mark.parametrize("wanted", [1, pytest.param(4, marks=pytest.mark.long)])
async def test_the_embedded_model_in_a_small_window(tmp_path: Path, wanted: int) -> None:
    """The conversation continues when a real model writes poor summaries."""
    home = tmp_path / "home"
    config = {
        "model": {"name": "embedded/smollm2", "context_length": EMBEDDED_WINDOW, "max_tokens": 8},
        # Sooner than usual: each token that is read costs this model 10 ms.
        "compression": {"protect_last_n": 2, "threshold": 0.4},
    }
    questions, splits = ["Good morning, this is ask0000."], 0
    async with hermes(home, config) as process:
        async with chat(process.url, "harbour") as person:
            while splits < wanted and len(questions) < 30:
                events = await person.say(questions[-1])
                assert events[-1]["type"] == "TurnDone", events[-1]
                [reported] = [event["usage"] for event in events if event["type"] == "UsageReported"]
                assert reported["prompt_tokens"] + reported["completion_tokens"] <= EMBEDDED_WINDOW
                splits += sum(event["type"] == "Compacted" for event in events)
                questions.append(question(len(questions), EMBEDDED_SENTENCES))
            transcript = await person.transcript()
        assert await process.stop() == 0

    asked = [message["content"] for message in transcript if message["role"] == "user"]
    assert asked == questions[: len(asked)]
    _takes_turns(message["role"] for message in transcript)
    [(conversation, lineage)] = sound_lineages(home / "state.db").items()
    assert lineage.splits == splits == wanted
    async with _opened(home / "state.db") as store:
        await _each_is_found(store, conversation, [("user", f"ask{n:04d}") for n in range(len(asked))])
        for session in lineage.sessions:
            _takes_turns(message.role for message in await store.sessions.history(session))


async def test_what_a_person_can_ask_for(tmp_path: Path) -> None:
    """`/compress`, with and without a topic, `/reset` and the three that only tell; in the web chat."""
    model, home = Correspondent(), tmp_path / "home"
    async with FakeOpenAI(context_length=WINDOW) as server:
        server.script(model)
        async with hermes(home, small_window(server)) as process, chat(process.url, "harbour") as person:
            await person.say(question(0))
            assert (
                await _told(person, "/compress")
                == "There is nothing to compress yet: the newest messages always stay."
            )
            assert len(server.requests) == 1, "and no model was asked"

            for number in range(1, 9):
                await person.say(question(number))
            compressed = await _told(person, "/compress billing")
            calls = len(server.requests)
            assert (
                await _told(person, "/compress")
                == "There is nothing to compress yet: the newest messages always stay."
            )
            assert len(server.requests) == calls
            status, usage = await person.told_at_once("/status"), await _told(person, "/usage")
            await person.say(question(9))
            assert "This is summary0001." in str(server.requests[-1].body["messages"])

            assert "new session" in await _told(person, "/reset")
            await person.say(question(10))
            assert [message["role"] for message in server.requests[-1].body["messages"]] == ["system", "user"]
            assert "2 ancestors" in await person.told_at_once("/status")
            told = await _told(person, "/help")
            questions = [m["content"] for m in await person.transcript() if m["role"] == "user"]

    assert server.refusals == []
    assert questions == [question(number) for number in range(11)], "commands are not part of what was said"
    for name in ("compress", "reset", "status", "usage", "help"):
        assert f"/{name}" in told
    [prompt] = model.summary_prompts
    assert "keep what concerns this topic above all, in most of the space: billing" in prompt
    assert "openai/test-model" in status and "1 ancestor" in status
    assert "Compactions: 1" in usage

    [(conversation, lineage)] = sound_lineages(home / "state.db").items()
    assert lineage.reasons == ["command", "reset"]
    async with _opened(home / "state.db") as store:
        [(child, done)] = await store.sessions.compactions(conversation)
    assert (child, done.trigger, done.focus) == (lineage.sessions[1], "command", "billing")
    assert done.messages_before == 18 > done.messages_after
    assert compressed.startswith(f"Compressed: 18 -> {done.messages_after} messages, ~")
    assert compressed.endswith(" tokens. Focus: billing.")


async def _told(person: Chat, command: str) -> str:
    """The answer to a command."""
    events = await person.say(command)
    assert [event["type"] for event in events] == ["TurnStarted", "Notice", "TurnDone"]
    return str(events[1]["text"])


def _asked(number: int) -> str:
    return f"{INSTRUCTION} {question(number)}" if number == INSTRUCTED_AT else question(number)


def _every_word(turns: int) -> list[tuple[str, str]]:
    """The role of every message and the word it has for itself, in order."""
    said: list[tuple[str, str]] = []
    for number in range(turns):
        said.append(("user", f"ask{number:04d}"))
        if number % NOTE_EVERY == 0:
            said += [("assistant", f"call{number:04d}"), ("tool", f"note{number:04d}")]
        said.append(("assistant", f"reply{number:04d}"))
    return said


def _word(text: str) -> str:
    [word] = re.findall(r"\b(?:ask|call|note|reply)\d{4}\b", text)
    return str(word)


def _takes_turns(roles: Iterable[str]) -> None:
    """Check that the user speaks first and that roles alternate, as strict providers require.

    A tool result counts as the user's; no answer here has more than one call.
    """
    sides = ["assistant" if role == "assistant" else "person" for role in roles]
    assert sides[0] == "person"
    assert all(one != other for one, other in pairwise(sides)), sides


async def _each_is_found(store: SqliteStore, conversation: str, words: Sequence[tuple[str, str]]) -> None:
    """By its word, once, and nothing else with it: neither a summary nor a copy."""
    for role, word in words:
        hits = await store.sessions.search(word, conversation_id=conversation)
        assert [(hit.message.role, _word(hit.message.content)) for hit in hits] == [(role, word)]


def _some_are_found_on_the_command_line(process: HermesProcess, turns: int) -> None:
    """While the gateway runs: in the first session, in the middle, and in the last."""
    for word in ("ask0000", f"reply{turns // 2:04d}", f"ask{turns - 1:04d}"):
        [hit] = json.loads(_cli(process, "sessions", "search", word, "--json"))
        assert _word(hit["message"]["content"]) == word


def _cli(process: HermesProcess, *arguments: str) -> str:
    command = [*HERMES, "--config", str(process.config_path), *arguments]
    done = warm.run(command, env=environment(process.home))
    assert done.returncode == 0, done.stderr
    return done.stdout


@asynccontextmanager
async def _opened(database: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(database, read_only=True)
    try:
        yield store
    finally:
        await store.close()
