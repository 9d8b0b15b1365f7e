"""The engine on the command line: chosen, misconfigured, backed up, and with a database that cannot be used."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.openai.server import FakeOpenAI
from tests.support import lcm_running_store as stored
from tests.support.lcm_running_model import WINDOW, LogKeepingModel, with_lcm
from tests.support.ordinary_user import hermes

FAILED = "The context engine failed; the conversation goes on, and the log says more."


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(context_length=WINDOW).in_thread() as server:
        LogKeepingModel(server)
        yield server


@pytest.fixture
def home(private_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    private_home.mkdir(mode=0o700)
    monkeypatch.chdir(private_home)
    return private_home


def configured(home: Path, config: dict[str, Any]) -> None:
    (home / "hermes.yaml").write_text(yaml.safe_dump(config))


def asked(text: str) -> subprocess.CompletedProcess[str]:
    """One question in the chat `main`; each is a process of its own."""
    done = hermes("chat", "--chat", "main", "-q", text)
    assert done.returncode == 0, done.stderr
    return done


def test_chosen(home: Path) -> None:
    """Comments stay, and everything that lists engines says which one it is."""
    (home / "hermes.yaml").write_text("# ours\ncontext:\n  engine: compressor # the usual one\n")
    used = hermes("plugins", "use", "lcm")
    assert used.returncode == 0 and "Wrote context.engine: lcm" in used.stdout, used.stderr
    assert (home / "hermes.yaml").read_text() == "# ours\ncontext:\n  engine: lcm # the usual one\n"
    listed = hermes("plugins", "list").stdout
    assert "Context Engine: lcm" in listed and "* lcm" in listed


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"fan_in": 1}, "`context.options.fan_in` must be a whole number, 2 or more, not 1."),
        ({"fan_on": 4}, "`context.options` has no `fan_on`. Did you mean `fan_in`?"),
    ],
    ids=["value", "name"],
)
def test_options_that_are_wrong(home: Path, options: dict[str, Any], sentence: str) -> None:
    """A sentence that names file, line and option instead of a start; no traceback."""
    configured(home, {"context": {"engine": "lcm", "options": options}})
    for command in (("run",), ("plugins", "use", "lcm"), ("config", "check")):
        done = hermes(*command)
        assert done.returncode != 0
        told = " ".join(done.stderr.split())
        assert sentence in told and "hermes.yaml" in told and "Traceback" not in told, done.stderr
    assert sentence in " ".join(hermes("plugins", "list").stdout.split())


async def test_there_and_back(home: Path, server: FakeOpenAI) -> None:
    """`hermes backup` takes the engine's database along, and `hermes restore` brings it back."""
    configured(home, with_lcm(server))
    for number in range(3):
        asked(f"Something to keep, {number}.")
    (conversation,) = stored.conversations(home)
    kept = stored.kept(home, conversation)
    assert len(kept) == 6 and await stored.agree(home, conversation, at_the_end=True)
    assert hermes("backup").returncode == 0
    (backup,) = (home / "backups").iterdir()
    asked("Something that is not in it.")
    for name in ("hermes-lcm.db", "hermes-lcm.db-wal", "hermes-lcm.db-shm"):
        (home / name).unlink(missing_ok=True)
    restored = hermes("restore", str(backup))
    assert restored.returncode == 0, restored.stderr
    assert stored.kept(home, conversation) == kept
    assert "Messages: 6 stored" in asked("/lcm").stdout
    asked("It goes on.")
    checked = hermes("doctor").stdout
    assert "context engine: lcm" in checked and "hermes-lcm.db of a context engine is sound" in checked
    assert await stored.agree(home, conversation, at_the_end=True)


def _make_read_only(database: Path) -> None:
    database.chmod(0o444)


def _damage(database: Path) -> None:
    database.write_bytes(b"no database " * 999)


@pytest.mark.parametrize("spoil", [_make_read_only, _damage])
def test_a_database_that_cannot_be_used(
    home: Path, server: FakeOpenAI, spoil: Callable[[Path], None]
) -> None:
    """The person is answered all the same, and told once; the answer is kept where everything is kept."""
    configured(home, with_lcm(server))
    asked("Before it happened.")
    spoil(home / "hermes-lcm.db")
    done = asked("And after it.")
    assert done.stdout == "I hear you: And after it.\n"
    assert done.stderr.count(FAILED) == 1 and "Traceback" not in done.stderr, done.stderr
    assert "And after it." in hermes("sessions", "show", "latest").stdout
    if spoil is _damage:
        assert "cannot be read" in asked("/lcm").stdout
        assert "hermes-lcm.db is not a SQLite database" in hermes("doctor").stdout
