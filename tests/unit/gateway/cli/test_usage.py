"""`hermes usage`: what it cost, as a chart, a table and numbers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from datetime import date
from pathlib import Path

import pytest

from agent.llm import Usage
from agent.store import Address
from gateway.store.sqlite.store import SqliteStore
from tests.support import warm
from tests.support.terminal import Terminal
from tests.support.warm import HERMES


def usage(*arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run([*HERMES, "usage", *arguments])


async def _spend(database: Path) -> None:
    store = await SqliteStore.open(database)
    conversation = await store.sessions.open_conversation(Address("web", "1"), person="owner")
    session = conversation.live_session_id
    await store.sessions.record_usage(session, Usage(2000, 500, 1000, 0, 0.5), model="dear", spender="owner")
    await store.sessions.record_usage(
        session, Usage(1000, 100, 0, 0, 0.25), model="dear", spender="telegram:\x1b[31m4711"
    )
    await store.sessions.record_usage(session, Usage(400, 40, 0, 0, None), model="free", spender="")
    await store.close()


@pytest.fixture
def spent(private_home: Path) -> None:
    private_home.mkdir(mode=0o700)
    asyncio.run(_spend(private_home / "state.db"))


def test_numbers_for_programs(spent: None) -> None:
    """Exact, by model, with a total; what has no price is counted and not guessed."""
    told = json.loads(usage("--by", "model", "--json").stdout)
    assert [line["model"] for line in told["lines"]] == ["dear", "free"]
    assert told["lines"][0] == {
        "model": "dear", "calls": 2, "prompt_tokens": 3000, "cache_read_tokens": 1000, "cache_write_tokens": 0,
        "completion_tokens": 600, "usd": 0.75, "unpriced_calls": 0,
    }  # fmt: skip
    assert (told["total"]["calls"], told["total"]["unpriced_calls"]) == (3, 1)


def test_beside_a_broken_configuration(spent: None, tmp_path: Path) -> None:
    """The figures need none of it; the mistake is named."""
    (tmp_path / "broken.yaml").write_text("modle: {}\n")
    shown = warm.run([*HERMES, "--config", str(tmp_path / "broken.yaml"), "usage", "--json"])
    assert shown.returncode == 0 and json.loads(shown.stdout) == json.loads(usage("--json").stdout)
    assert "did you mean model?" in shown.stderr


def test_days_without_anything_are_there_too(spent: None) -> None:
    """In a pipe: tabs, the oldest day first, a total, no bars."""
    lines = [line.split("\t") for line in usage("--days", "3").stdout.splitlines()]
    assert [line[0] for line in lines][2:] == [f"{date.today()}", "total"]
    assert lines[0][1:] == ["0", "0", "0", "0.0", "0"]
    assert lines[2][1:] == lines[3][1:] == ["3400", "1000", "640", "0.75", "1"]


async def test_a_chart_for_a_person(spent: None) -> None:
    """The longest bar is the maximum, names cannot control the terminal, and unknown prices are marked."""
    async with Terminal.run(*HERMES, "usage", "--by", "person", env=os.environ, columns=100) as terminal:
        assert await terminal.ended() == 0
        await terminal.until("of unknown price")
    heading, owner, guest, nobody, total, *note = terminal.screen.lines
    assert heading.split() == ["PERSON", "IN", "CACHED", "OUT", "COST"]
    assert owner.count("█") > guest.count("█") > 0
    assert "telegram:\\x1b[31m4711" in guest
    assert nobody.startswith("(no person)") and " ? " in nobody
    assert re.search(r"3\.4k\s+1\.0k\s+640\s+\$0\.75 \+ \?", total)
    assert "29% of the tokens in came from the cache." in " ".join(note)


def test_without_colours(spent: None) -> None:
    """NO_COLOR is respected."""
    raw = subprocess.run(
        ["script", "-qec", " ".join([*HERMES, "usage"]), "/dev/null"],
        env={
            **os.environ,
            "NO_COLOR": "1",
            "TERM": "xterm-256color",
            "PYTHONPATH": str(Path(__file__).parents[4]),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "\x1b[36m" not in raw.stdout and "█" in raw.stdout


def test_nothing_and_bad_input(private_home: Path) -> None:
    """A sentence for a person, an empty list for a program."""
    assert "There were no model calls since" in usage().stderr
    assert json.loads(usage("--by", "person", "--json").stdout)["lines"] == []
    assert usage("--days", "0").returncode == usage("--by", "year").returncode == 2
