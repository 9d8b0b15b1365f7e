"""`hermes backup` and `hermes restore`, seen as processes."""

from __future__ import annotations

import asyncio
import tarfile
from pathlib import Path

import pytest

from gateway.backup.archive import holds_secret
from gateway.config.loader import SHIPPED
from gateway.process_lock import hold_lock
from tests.support.backup_harness import StateDirectory, texts_in, with_texts
from tests.support.hermes_process import environment
from tests.support.ordinary_user import hermes
from tests.support.terminal import Terminal
from tests.support.warm import HERMES

FAKE_KEY = "not-a-key-but-a-test-0000"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory without a hermes.yaml."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "elsewhere"


@pytest.fixture
def state(private_home: Path) -> StateDirectory:
    return with_texts(private_home, "first", "second")


def members(backup: Path) -> set[str]:
    with tarfile.open(backup) as archive:
        return set(archive.getnames())


def test_there_and_back(state: StateDirectory) -> None:
    """Where it lies, how large it is and what is in it; then everything is back, and what was there is kept."""
    (state.home / ".env").write_text(f"OPENAI_API_KEY={FAKE_KEY}\n")
    (state.home / "hermes.yaml").write_text("model: {name: openai/x, api_key: '${OPENAI_API_KEY}'}\n")
    made = hermes("backup")
    assert made.returncode == 0, made.stderr
    (backup,) = (state.home / "backups").iterdir()
    lines = dict(line.split(maxsplit=1) for line in made.stdout.splitlines())
    assert lines["Backup"] == str(backup)
    assert lines["Size"].startswith(f"{backup.stat().st_size / 1000:.1f} kB")
    assert lines["Holds"] == "1 conversation, 2 messages"
    assert lines["Took"].endswith("and the copy was checked")
    assert "Keys in .env or the environment are not in it; keep them yourself." in made.stdout
    assert members(backup) == {"hermes-backup.json", "state.db", "hermes.yaml"}
    assert FAKE_KEY.encode() not in b"".join(content for content in contents(backup))

    state.database.unlink()
    with_texts(state.home, "third")
    restored = hermes("restore", str(backup))
    assert restored.returncode == 0, restored.stderr
    assert "The backup holds 1 conversation, 2 messages, the newest of 20" in restored.stdout
    assert "It takes the place of 1 conversation, 1 message, the newest of 20" in restored.stdout
    assert "Restored 1 conversation, 2 messages" in restored.stdout
    assert "hermes.yaml` shows it" in restored.stdout
    assert state.texts() == ["first", "second"]
    (kept,) = state.home.glob("state.db.before-restore-*")
    assert f"The old state is kept as {kept}" in restored.stdout
    assert texts_in(kept) == ["third"]


async def test_a_person_is_asked_first(state: StateDirectory) -> None:
    """Answering no changes nothing; `--yes` skips the question."""
    made = await asyncio.to_thread(hermes, "backup", "b.tar.gz")
    assert made.returncode == 0, made.stderr
    await asyncio.to_thread(with_texts, state.home, "third")
    command = [*HERMES, "restore", "b.tar.gz"]
    async with Terminal.run(*command, env=environment(state.home), columns=120) as terminal:
        await terminal.until("Restore it? [y/N]:")
        terminal.type("n\r")
        assert await terminal.ended() == 1
    assert "hermes: Nothing was changed." in terminal.screen.text
    assert not list(state.home.glob("*before-restore*"))
    async with Terminal.run(*command, "--yes", env=environment(state.home), columns=120) as terminal:
        assert await terminal.ended() == 0
    assert await asyncio.to_thread(state.texts) == ["first", "second"]


def contents(backup: Path) -> list[bytes]:
    with tarfile.open(backup) as archive:
        return [file.read() for member in archive if (file := archive.extractfile(member))]


def test_a_configuration_with_a_key_in_it_stays_at_home(state: StateDirectory, elsewhere: Path) -> None:
    """A backup is carried to other places; keys are not."""
    (state.home / "hermes.yaml").write_text(
        f"model: {{name: openai/x, fallbacks: [{{name: openai/y, api_key: {FAKE_KEY}}}]}}\n"
    )
    (state.workspaces / "conv_1").mkdir(parents=True)
    (state.workspaces / "conv_1" / "notes.txt").write_text("notes")
    made = hermes("backup", "--with-workspaces", str(elsewhere))
    assert made.returncode == 0, made.stderr
    (backup,) = elsewhere.glob("hermes-*.tar.gz")
    assert "hermes.yaml is not in it, because it contains keys or tokens." in made.stdout
    assert "2 messages, 1 file of workspaces" in made.stdout
    assert members(backup) == {
        "hermes-backup.json", "state.db", "workspaces/conv_1", "workspaces/conv_1/notes.txt"
    }  # fmt: skip


def test_what_an_agent_has_locked_is_left_out_and_named(state: StateDirectory, elsewhere: Path) -> None:
    """One file without any rights does not keep the owner from a backup, and none is missing without a word."""
    folder = state.workspaces / "conv_1"
    (folder / "shut").mkdir(parents=True)
    for name in ("locked.txt", "notes.txt", "shut/inside.txt"):
        (folder / name).write_text("notes")
    locked = [folder / "locked.txt", folder / "shut"]
    for path in locked:
        path.chmod(0)
    made = hermes("backup", "--with-workspaces", str(elsewhere))
    for path in locked:
        path.chmod(0o700)
    assert made.returncode == 0, made.stderr
    assert "2 messages, 1 file of workspaces" in made.stdout
    for path in locked:
        assert f"Left out, because it cannot be read: {path}: Permission denied" in made.stdout
    (backup,) = elsewhere.glob("hermes-*.tar.gz")
    assert "workspaces/conv_1/notes.txt" in members(backup)
    assert "workspaces/conv_1/locked.txt" not in members(backup)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        (f"model: {{api_key: {FAKE_KEY}}}", True),
        ('model: {api_key: "not-a-\\x6bey-but-a-\\u0074est-0000"}', True),
        ('model: {api_key: "not-a-key-\\\n  but-a-test-0000"}', True),
        (f"# api_key: {FAKE_KEY}", True),
        ("# api_key: sk-ant-api03-" + "fA4e" * 12, True),
        ("model: {api_key: '${OPENAI_API_KEY}'}  # not a key", False),
    ],
)
def test_a_key_is_found_however_it_is_written(text: str, holds: bool) -> None:
    """With escapes, broken over lines, or in a comment; and a secret that was left empty is in no file."""
    assert holds_secret(text, ["", FAKE_KEY]) == holds


def test_the_configuration_that_comes_with_hermes_holds_no_key() -> None:
    """Else it, and what people make of it, would never be in a backup."""
    assert not holds_secret(SHIPPED.read_text(encoding="utf-8"), [""])


def test_what_is_refused(state: StateDirectory, elsewhere: Path) -> None:
    """In a sentence, with what to do."""
    with hold_lock(state.home, state.database):
        running = hermes("restore", "whatever.tar.gz")
    assert (running.returncode, running.stdout) == (1, "")
    assert "Hermes is running; stop it first" in running.stderr
    elsewhere.chmod(0o500)
    unwritable = hermes("backup", str(elsewhere))
    elsewhere.chmod(0o700)
    assert unwritable.returncode == 1
    assert "The backup failed, and no file was left: " in unwritable.stderr
    assert "Permission denied" in unwritable.stderr
    assert list(elsewhere.iterdir()) == []


def test_a_directory_that_is_not_there(state: StateDirectory, tmp_path: Path) -> None:
    """A disk that is not mounted: no file of its name is made on another disk."""
    refused = hermes("backup", str(tmp_path / "stick"))
    assert refused.returncode == 2
    assert "There is no directory" in refused.stderr
    assert not (tmp_path / "stick").exists()
