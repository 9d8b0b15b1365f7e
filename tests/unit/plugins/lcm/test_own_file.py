"""Whose file it is: our own moves to its new name whole, another program's is never touched, and that is said."""

from __future__ import annotations

import hashlib
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent.events import Notice, TurnDone
from gateway.cli.doctor_checks_agent import plugins as doctor_on_plugins
from gateway.config.loader import LoadedConfig
from gateway.config.schema import Config
from plugins.context_engine.lcm.database import (
    APPLICATION_ID,
    EARLIER_NAME,
    FILE_NAME,
    ForeignDatabase,
    connect,
)
from plugins.context_engine.lcm.engine import LosslessContext
from tests.support.backup_harness import with_texts
from tests.support.histories import assistant, chat, user
from tests.support.lcm_chats import Host, stored_in
from tests.support.lcm_harness import opened

HEADER = 100
"""Bytes of an SQLite file in which it says what it is."""


def of_another_plugin(path: Path, application: int = 0) -> None:
    """With names like ours, as plugins of this kind have them; open in a log, as a killed process leaves it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"PRAGMA application_id = {application}")
        db.execute("PRAGMA user_version = 2")
        db.execute("CREATE TABLE conversations (id TEXT, title TEXT)")
        db.execute("CREATE TABLE messages (message_id INTEGER, conversation_id INTEGER, content TEXT)")
        db.execute("CREATE TABLE summaries (summary_id TEXT, content TEXT)")
        db.execute("INSERT INTO messages VALUES (1, 1, 'not yours')")


def from_before(home: Path, *, open_log: bool = False) -> Host:
    """A state directory of a version that called the file `lcm.db` and gave it no application id."""
    host = Host(home, 8_000)
    host.say(user("The heron lives at the weir."), assistant("Noted."))
    host.look()
    host.close()
    with closing(sqlite3.connect(home / FILE_NAME, isolation_level=None)) as db:
        db.execute("PRAGMA application_id = 0")
    (home / FILE_NAME).rename(home / EARLIER_NAME)
    if open_log:
        killed(
            f"import sqlite3, os, signal\ndb = sqlite3.connect({str(home / EARLIER_NAME)!r}, isolation_level=None)\n"
            "db.execute('PRAGMA wal_autocheckpoint = 0')\n"
            "db.execute(\"UPDATE conversations SET person = 'only in the log'\")\n"
            "os.kill(os.getpid(), signal.SIGKILL)"
        )
    return host


def killed(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[4], check=False)
    assert done.returncode == -signal.SIGKILL


def content(folder: Path, pattern: str) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob(pattern)}


def persons(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return [person for (person,) in db.execute("SELECT person FROM conversations")]


def test_a_new_file_says_whose_it_is(tmp_path: Path) -> None:
    host = Host(tmp_path, 8_000)
    host.say(user("hello"))
    host.look()
    host.close()
    assert {path.name for path in tmp_path.iterdir()} == {FILE_NAME}
    header = (tmp_path / FILE_NAME).read_bytes()[:HEADER]
    assert int.from_bytes(header[68:72], "big") == APPLICATION_ID


@pytest.mark.parametrize("open_log", [False, True])
def test_our_own_file_gets_its_new_name(tmp_path: Path, open_log: bool) -> None:
    """With everything that was committed, also what a killed process left in the log."""
    host = from_before(tmp_path, open_log=open_log)
    assert (tmp_path / f"{EARLIER_NAME}-wal").exists() == open_log
    LosslessContext(8_000, hermes_home=str(tmp_path)).problem()
    assert (tmp_path / EARLIER_NAME).exists(), "looking moves nothing"
    connect(tmp_path / FILE_NAME).close()
    assert {path.name for path in tmp_path.iterdir()} == {FILE_NAME}
    assert persons(tmp_path / FILE_NAME) == ["only in the log" if open_log else "ada"]
    host.restart()
    assert "weir" in host.tool("lcm_expand", id="m1")
    assert "All is well" in host.tool("lcm_doctor")
    host.close()
    assert stored_in(tmp_path) == host.said


@pytest.mark.parametrize("call", ["rename", "fsync"])
def test_killed_while_it_moves(tmp_path: Path, call: str) -> None:
    """Whenever that is, the next start finds all of it under one of the names."""
    host = from_before(tmp_path, open_log=True)
    killed(
        "import os, signal, pathlib\n"
        f"real = os.{call} if {call!r} == 'fsync' else pathlib.Path.rename\n"
        "def die(*given):\n"
        f"    {'real(*given); ' if call == 'fsync' else ''}os.kill(os.getpid(), signal.SIGKILL)\n"
        f"{'os.fsync' if call == 'fsync' else 'pathlib.Path.rename'} = die\n"
        "from plugins.context_engine.lcm.database import connect\n"
        f"connect(pathlib.Path({str(tmp_path / FILE_NAME)!r}))"
    )
    host.restart()
    assert "weir" in host.tool("lcm_expand", id="m1")
    host.close()
    assert {path.name for path in tmp_path.iterdir()} == {FILE_NAME}
    assert stored_in(tmp_path) == host.said


def test_two_processes_move_it_once(tmp_path: Path) -> None:
    """The second waits, and finds it done."""
    from_before(tmp_path, open_log=True)
    code = (
        "import pathlib\nfrom plugins.context_engine.lcm.database import connect\n"
        f"connect(pathlib.Path({str(tmp_path / FILE_NAME)!r})).close()"
    )
    root = Path(__file__).parents[4]
    started = [subprocess.Popen([sys.executable, "-c", code], cwd=root) for _ in range(3)]
    assert [each.wait(60) for each in started] == [0, 0, 0]
    assert persons(tmp_path / FILE_NAME) == ["only in the log"]
    assert not (tmp_path / EARLIER_NAME).exists()


def test_a_file_in_use_is_not_moved_away(tmp_path: Path) -> None:
    """An older Hermes may still have it open: that is told, and the file is whole."""
    host = from_before(tmp_path)
    with closing(sqlite3.connect(tmp_path / EARLIER_NAME, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("SELECT * FROM messages").fetchone()
        host.restart()
        host.engine.compress(host.messages)
        assert host.engine.last_outcome.kind == "failed"
        assert (tmp_path / EARLIER_NAME).exists() and not (tmp_path / FILE_NAME).exists()
    host.look()
    host.close()
    assert stored_in(tmp_path) == host.said


@pytest.mark.parametrize("application", [0, 0x1234])
def test_a_file_of_another_plugin_is_never_touched(tmp_path: Path, application: int) -> None:
    """Both work beside each other: ours compacts, theirs stays byte for byte."""
    of_another_plugin(tmp_path / EARLIER_NAME, application)
    with closing(sqlite3.connect(tmp_path / EARLIER_NAME, isolation_level=None)) as theirs:
        theirs.execute("PRAGMA journal_mode = WAL")
        theirs.execute("INSERT INTO messages VALUES (2, 1, 'still not yours')")
        before = content(tmp_path, f"{EARLIER_NAME}*")
        host = Host(tmp_path, 8_000)
        host.say(*chat(60)[1:])
        assert host.compress()
        host.close()
        assert content(tmp_path, f"{EARLIER_NAME}*") == before
        assert theirs.execute("SELECT count(*) FROM messages").fetchone() == (2,)
    assert host.engine.problem() == ""


@pytest.mark.parametrize(
    "make", [lambda path: path.touch(), lambda path: path.write_bytes(b"no database" * 99)]
)
def test_what_is_no_database_stays(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / EARLIER_NAME)
    before = content(tmp_path, EARLIER_NAME)
    connect(tmp_path / FILE_NAME).close()
    assert content(tmp_path, EARLIER_NAME) == before


def test_a_backup_from_before_is_taken_over_where_it_is_restored(tmp_path: Path) -> None:
    state = with_texts(tmp_path / "home", "old")
    from_before(state.home)
    made = state.backup(tmp_path / "b.tar.gz")
    assert list(made.manifest.engines) == [EARLIER_NAME]
    elsewhere = with_texts(tmp_path / "elsewhere", "new")
    elsewhere.restore(made.path)
    connect(elsewhere.home / FILE_NAME).close()
    assert persons(elsewhere.home / FILE_NAME) == ["ada"]
    assert not (elsewhere.home / EARLIER_NAME).exists()


@pytest.mark.parametrize("application", [0, 0x1234])
def test_a_foreign_file_under_our_name_is_told(tmp_path: Path, application: int) -> None:
    """By the engine, by `hermes doctor`; and not a byte of it is changed."""
    path = tmp_path / FILE_NAME
    of_another_plugin(path, application)
    before = content(tmp_path, "*")
    host = Host(tmp_path, 8_000)
    host.say(*chat(60)[1:])
    with pytest.raises(ForeignDatabase, match="belongs to another program"):
        host.engine.should_compress_preflight(host.messages)
    assert host.engine.compress(host.messages) is host.messages
    assert "belongs to another program" in host.engine.last_outcome.detail
    assert "belongs to another program" in host.engine.problem()
    assert "belongs to another program" in host.engine.get_status()["problem"]
    assert "belongs to another program" in host.tool("lcm_grep", query="word")
    config = Config.model_validate({"context": {"engine": "lcm"}})
    [failed] = [
        each for each in doctor_on_plugins(LoadedConfig(config, None, tmp_path)) if each.level == "fail"
    ]
    assert str(path) in failed.text and "belongs to another program" in failed.text
    assert content(tmp_path, "*") == before
    path.rename(tmp_path / "theirs.db")
    host.look()
    assert host.engine.problem() == ""
    host.close()


async def test_the_conversation_goes_on_beside_a_foreign_file(tmp_path: Path) -> None:
    """Each message is answered, the person is told once, and `/status` says what is wrong."""
    of_another_plugin(tmp_path / FILE_NAME)
    async with opened(tmp_path) as chat_room:
        events = await chat_room.talk(3, "harbour", tokens=500)
        assert sum(isinstance(event, TurnDone) for event in events) == 3
        assert sum(isinstance(event, Notice) for event in events) == 1
        told = await chat_room.command("/status")
        assert "The context engine does not work: " in told and "belongs to another program" in told
