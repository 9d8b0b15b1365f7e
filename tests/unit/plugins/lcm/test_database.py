"""The database file: created when needed, private, never downgraded, closed by its last user."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from plugins.context_engine.lcm.database import FILE_NAME, Database, NewerDatabase, connect
from plugins.context_engine.lcm.engine import LosslessContext
from tests.support.histories import user
from tests.support.lcm_chats import Host, stored_in


def test_an_engine_that_is_only_made_makes_no_file(tmp_path: Path) -> None:
    """`hermes plugins` makes engines to look at them."""
    LosslessContext(100_000, hermes_home=str(tmp_path)).get_tool_schemas()
    assert list(tmp_path.iterdir()) == []


def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    """It holds what people said; so does the log beside it."""
    os.umask(0o022)
    host = Host(tmp_path, 8_000)
    host.say(user("my secret"))
    host.look()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("hermes-lcm.db*")}
    assert set(modes) == {"hermes-lcm.db", "hermes-lcm.db-wal", "hermes-lcm.db-shm"}
    assert set(modes.values()) == {0o600}


def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    """A later version knows what stands in it; this one does not."""
    connect(tmp_path / "hermes-lcm.db").close()
    with closing(sqlite3.connect(tmp_path / "hermes-lcm.db")) as plain:
        plain.execute("PRAGMA user_version = 99")
    with pytest.raises(NewerDatabase, match="has schema 99"):
        connect(tmp_path / "hermes-lcm.db")


def test_messages_can_be_neither_changed_nor_deleted(tmp_path: Path) -> None:
    """Not even by a mistake of ours."""
    host = Host(tmp_path, 8_000)
    host.say(user("as it was"))
    host.close()
    with closing(connect(tmp_path / "hermes-lcm.db")) as connection:
        for statement in (
            "UPDATE messages SET content = 'as it never was'",
            "DELETE FROM messages",
            "INSERT OR REPLACE INTO messages SELECT * FROM messages",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="never"):
                connection.execute(statement)
    assert stored_in(tmp_path) == [user("as it was")]


def test_what_failed_leaves_nothing_behind(tmp_path: Path) -> None:
    """Neither half a transaction nor a connection that is in one."""
    database = Database(tmp_path / "hermes-lcm.db")
    database.acquire()
    with pytest.raises(RuntimeError), database.writing() as connection:
        connection.execute("INSERT INTO conversations (id, created_at) VALUES ('half', 0)")
        raise RuntimeError
    with database.writing() as connection:
        assert connection.execute("SELECT count(*) FROM conversations").fetchone()[0] == 0
    database.release()


WITHOUT_HOME = """
from pathlib import Path
from tests.support.histories import user
from tests.support.lcm_chats import Host

host = Host(Path("missing-state-directory"), 8_000)
host.say(user("hello"))
host.look()
assert "hello" in host.tool("lcm_expand", id="m1")
print(host.engine._db.path)
"""


def test_without_a_state_directory() -> None:
    """A temporary database serves the engine, and the end of the process deletes it."""
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_HOME], cwd=root, capture_output=True, text=True, check=True
    )
    path = Path(done.stdout.strip())
    assert path.name == FILE_NAME and not path.parent.exists()
    assert not (root / "missing-state-directory").exists()
