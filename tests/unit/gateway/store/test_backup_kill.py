"""SQLite only: `kill -9` and Ctrl-C at every step of a backup and of a restore."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.store.sqlite.store import SqliteStore
from tests.support.backup_harness import StateDirectory, say, with_texts

ROOT = Path(__file__).parents[4]


def attempts(
    action: str, template: Path, backup: Path, room: Path, *, how: str = "kill"
) -> list[dict[str, Any]]:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.killed_at_every_step", action, how, template, backup, room],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=110,
    )
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """It holds `new`, in the database and in the workspaces."""
    state = with_texts(tmp_path / "elsewhere", "new")
    write_notes(state, "new")
    return state.backup(tmp_path / "new.tar.gz", workspaces=True).path


def write_notes(state: StateDirectory, text: str) -> None:
    state.workspaces.mkdir()
    (state.workspaces / "notes.txt").write_text(text)


def crashed(home: Path, *texts: str) -> StateDirectory:
    """Like a killed Hermes: the last messages are in the log only."""

    with_texts(home.parent / "running", *texts[:-1])

    async def talk() -> None:
        running = await SqliteStore.open(home.parent / "running" / "state.db")
        await say(running, texts[-1])
        shutil.copytree(home.parent / "running", home)
        await running.close()

    asyncio.run(talk())
    state = StateDirectory(home)
    assert (home / "state.db-wal").stat().st_size
    write_notes(state, " ".join(texts))
    return state


@pytest.mark.parametrize("how", ["kill", "interrupt"])
def test_a_restore_is_whole_or_has_not_happened(tmp_path: Path, backup: Path, how: str) -> None:
    """Database and workspaces are both old or both new, and the old ones are kept."""
    template = crashed(tmp_path / "template", "very", "old")
    seen = attempts("restore", template.home, backup, tmp_path / "room", how=how)
    assert len(seen) > 15
    states = [attempt["then"] for attempt in seen]
    assert states == sorted(states, reverse=True)  # from some step on it has happened
    assert (states[0], states[-1]) == ("very old", "new")
    for attempt in seen:
        assert attempt["at once"] in (attempt["then"], "refused"), attempt
        assert attempt["workspaces"] == attempt["then"], attempt
        assert attempt["kept"] == (["very old"] if attempt["then"] == "new" else []), attempt
    assert "refused" in [attempt["at once"] for attempt in seen]
    assert seen[-1]["left"] == []


def test_a_damaged_database_is_replaced_whole_as_well(tmp_path: Path, backup: Path) -> None:
    """Its log cannot be taken in, so it is moved along: beside the new file it would be the end of that, too."""
    template = crashed(tmp_path / "template", "very", "old")
    template.database.write_bytes(b"no database at all" * 1000)
    seen = attempts("restore", template.home, backup, tmp_path / "room")
    assert [attempt["then"] for attempt in (seen[0], seen[-1])] == ["damaged", "new"]
    for attempt in seen:
        assert attempt["at once"] in (attempt["then"], "refused"), attempt
        assert attempt["kept"] == (["damaged"] if attempt["then"] == "new" else []), attempt


def test_a_backup_is_whole_or_not_there(tmp_path: Path, backup: Path) -> None:
    """Nothing half lies under its name, and what a killed one left elsewhere is gone after the next."""
    template = crashed(tmp_path / "template", "very", "old")
    seen = attempts("backup", template.home, backup, tmp_path / "room")
    assert len(seen) > 5
    assert {(attempt["made"], attempt["usable"]) for attempt in seen} == {(False, False), (True, True)}
    for attempt in seen:
        assert (attempt["then"], attempt["left"]) == ("very old", []), attempt
