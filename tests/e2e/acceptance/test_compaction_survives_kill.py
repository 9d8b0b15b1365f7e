"""Killed around a compaction: the conversation is as it was before, or as it is after; nothing between."""

from __future__ import annotations

import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from agent.loop import CLOSING_SECONDS
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Call
from tests.support.hermes_process import hermes
from tests.support.lineage import Lineage, sound_lineages
from tests.support.long_chat import (
    WINDOW,
    Chat,
    Correspondent,
    chat,
    question,
    small_window,
    talk_until_compacted,
)
from tests.support.splitting import CHATS

ROOT = Path(__file__).parents[3]
KILLS = 8
BACKGROUND_FROM = 0.8 * 0.5 * WINDOW
"""Tokens in the window from which on a summary is prepared between the turns."""
INSTRUCTION = "From now on, always give the times of the tides in local time."


async def test_killed_while_summarising(tmp_path: Path) -> None:
    """Kill three summaries that started for different reasons: each session is unchanged and is compacted later.

    Hermes resumes the interrupted turn by itself and does not repeat a command.
    """
    model, database = Correspondent(), tmp_path / "home" / "state.db"
    model.hold_summaries = True
    ways = {"harbour": _between_turns, "office": _on_command, "pier": _inside_a_turn}
    async with FakeOpenAI(context_length=WINDOW) as server:
        server.script(model)
        async with hermes(tmp_path / "home", small_window(server)) as process:
            said = {}
            for number, (place, reach_a_summary) in enumerate(ways.items(), start=1):
                async with chat(process.url, place) as person:
                    count = await reach_a_summary(server, person)
                    await server.waiting(number)
                    said[place] = await person.transcript()
                    assert len(said[place]) == count
            assert await process.stop(signal.SIGKILL) == -signal.SIGKILL
            assert [lineage.splits for lineage in sound_lineages(database).values()] == [0, 0, 0]

            await process.restart()
            model.hold_summaries = False
            server.release()
            for place, before in said.items():
                async with chat(process.url, place) as person:
                    await talk_until_compacted(person, first=100)
                    after = await person.transcript()
                assert after[: len(before)] == before
                since = [_asked(message) for message in after[len(before) :]]
                if place == "pier":
                    assert since.pop(0) == ("assistant", 8)
                assert since == _turns_from(100, len(since))
    assert server.refusals == []
    assert [lineage.splits for lineage in sound_lineages(database).values()] == [1, 1, 2]


async def test_a_stop_does_not_wait_for_a_summary(tmp_path: Path) -> None:
    """Neither /stop nor SIGTERM: the request is closed at the provider, and all is as before."""
    model = Correspondent()
    model.hold_summaries = True
    async with FakeOpenAI(context_length=WINDOW) as server:
        server.script(model)
        async with hermes(tmp_path / "home", small_window(server)) as process:
            async with chat(process.url, "pier") as person:
                await _inside_a_turn(server, person)
                await server.waiting()
                assert await person.stop()
                await server.disconnected()
            async with chat(process.url, "harbour") as person:
                await _between_turns(server, person)
                await server.waiting(2)
            began = time.monotonic()
            assert await process.stop() == 0
            assert time.monotonic() - began < CLOSING_SECONDS, "Hermes waits that long for an engine at work"
            await server.disconnected(2)
    assert [lineage.splits for lineage in sound_lineages(tmp_path / "home" / "state.db").values()] == [0, 0]
    assert len(model.summary_prompts) == 2, "nothing was asked again on the way out"


async def test_the_next_process_goes_on_with_the_summary(tmp_path: Path) -> None:
    """After a restart the earlier summary is updated with what is new, and the ledger is carried along."""
    model = Correspondent()
    async with FakeOpenAI(context_length=WINDOW) as server:
        server.script(model)
        async with hermes(tmp_path / "home", small_window(server)) as process:
            async with chat(process.url, "harbour") as person:
                await person.say(question(0))
                await person.say(f"{INSTRUCTION} {question(1)}")
                reached = await talk_until_compacted(person, first=2)
            await process.restart()
            async with chat(process.url, "harbour") as person:
                reached = await talk_until_compacted(person, first=reached)
                await person.say(question(reached))
    assert server.refusals == []
    assert _only_lineage(tmp_path / "home" / "state.db").splits == 2

    first, second = model.summary_prompts
    assert "This is summary0001." in second
    assert _questions_in(first)[0] == 1, "the first exchange stays as it is"
    assert _questions_in(second)[0] == _questions_in(first)[-1] + 1, "it goes on where the first one ended"
    [carried] = [m["content"] for m in server.requests[-1].body["messages"] if "LEDGER" in m["content"]]
    assert f"- {INSTRUCTION}" in carried
    assert "This is summary0002." in carried


def test_killed_at_every_step_of_a_split(tmp_path: Path) -> None:
    """One moment separates a split that never was from one that is whole."""
    subprocess.run([sys.executable, "-m", "tests.support.killed_inside", tmp_path], cwd=ROOT, check=True)
    runs = sorted(tmp_path.glob("*.db"), key=lambda path: int(path.stem))
    splits = [_only_lineage(path).splits for path in runs]
    assert len(splits) > 10
    assert splits == sorted(splits)
    assert splits[-3] == 0, "killed when the commit was about to be called"
    assert splits[-2:] == [1, 1], "killed when it had just returned, and not at all"


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Conversations are split as fast as the disk allows; no kill leaves half a split or loses a whole one."""
    database, chance = tmp_path / "state.db", random.Random(20)
    known: set[str] = set()
    for _ in range(KILLS):
        acknowledged = _split_and_kill(database, chance)
        lineages = sound_lineages(database)
        stored = {session for lineage in lineages.values() for session in lineage.sessions[1:]}
        assert known | acknowledged <= stored
        assert len(stored - known - acknowledged) <= CHATS, "at most one on its way in each conversation"
        _every_session_has_what_was_said(database, lineages)
        known = stored


async def _between_turns(server: FakeOpenAI, person: Chat) -> int:
    """Start a summary in the background and return the number of messages."""
    for number in range(60):
        events = await person.say(question(number))
        [reported] = [event["usage"] for event in events if event["type"] == "UsageReported"]
        if reported["prompt_tokens"] + reported["completion_tokens"] >= BACKGROUND_FROM:
            return 2 * (number + 1)
    raise AssertionError("the window never filled")


async def _on_command(server: FakeOpenAI, person: Chat) -> int:
    for number in range(8):
        await person.say(question(number))
    await person.send("/compress")
    return 2 * 8


async def _inside_a_turn(server: FakeOpenAI, person: Chat) -> int:
    """A tool call fills the window, and the model has to be asked again."""
    for number in range(8):
        await person.say(question(number))
    log = Call("write_file", {"path": "log.md", "content": "The paint is still wet. " * 400})
    server.reply("I write it all down.", tool_calls=[log])
    await person.send(question(8))
    return 2 * 8 + len(("question", "call", "result"))


def _split_and_kill(database: Path, chance: random.Random) -> set[str]:
    """Gives the sessions whose split was reported as done."""
    command = [sys.executable, "-m", "tests.support.splitting", str(database)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as splitter:
        assert splitter.stdout
        acknowledged = {splitter.stdout.readline().strip() for _ in range(chance.randint(1, 80))}
        time.sleep(chance.uniform(0, 0.01))  # into one of the next commits, wherever that is
        splitter.kill()
        return acknowledged | set(splitter.stdout.read().split())


def _every_session_has_what_was_said(database: Path, lineages: dict[str, Lineage]) -> None:
    """Question and answer before each split, both or none; a kill in front of it leaves two for the next run."""
    with closing(sqlite3.connect(database)) as db:
        counts = dict(
            db.execute("SELECT session_id, count(*) FROM messages WHERE kind = 'said' GROUP BY session_id")
        )
    for lineage in lineages.values():
        assert all(counts[session] >= 2 for session in lineage.sessions[:-1])
        assert all(count % 2 == 0 for count in counts.values())


def _only_lineage(database: Path) -> Lineage:
    [lineage] = sound_lineages(database).values()
    return lineage


def _asked(message: dict[str, str]) -> tuple[str, int]:
    found = re.search(r"\b(?:ask|reply)(\d{4})\b", message["content"])
    assert found, message
    return message["role"], int(found[1])


def _turns_from(first: int, messages: int) -> list[tuple[str, int]]:
    return [(("user", "assistant")[at % 2], first + at // 2) for at in range(messages)]


def _questions_in(prompt: str) -> list[int]:
    return [int(number) for number in re.findall(r"^\[USER\].*\bask(\d{4})\b", prompt, re.MULTILINE)]
