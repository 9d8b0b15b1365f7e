"""`hermes backup` and `hermes restore`, seen as processes."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from gateway.state_lock import only_process
from tests.config.ordinary_user import hermes
from tests.store.backup_house import StateDirectory, texts_in, with_texts

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
    assert lines["Size"].startswith(f"{backup.stat().st_size / 1000:.1f} KB")
    assert lines["Holds"] == "1 conversations, 2 messages"
    assert lines["Took"].endswith("and the copy was checked")
    assert "Keys in .env or the environment are not in it; keep them yourself." in made.stdout
    assert members(backup) == {"hermes-backup.json", "state.db", "hermes.yaml"}
    assert FAKE_KEY.encode() not in b"".join(content for content in contents(backup))

    state.database.unlink()
    with_texts(state.home, "third")
    restored = hermes("restore", str(backup))
    assert restored.returncode == 0, restored.stderr
    assert "Restored 1 conversations, 2 messages" in restored.stdout
    assert "hermes.yaml` takes it out" in restored.stdout
    assert state.texts() == ["first", "second"]
    (kept,) = state.home.glob("state.db.before-restore-*")
    assert f"What was there is kept as {kept}" in restored.stdout
    assert texts_in(kept) == ["third"]


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
    assert "hermes.yaml is not in it, because keys or tokens stand in it." in made.stdout
    assert "2 messages, 1 files of workspaces" in made.stdout
    assert members(backup) == {
        "hermes-backup.json", "state.db", "workspaces/conv_1", "workspaces/conv_1/notes.txt"
    }  # fmt: skip


def test_what_is_refused(state: StateDirectory, elsewhere: Path) -> None:
    """In a sentence, with what to do."""
    with only_process(state.home, state.database):
        running = hermes("restore", "whatever.tar.gz")
    assert (running.returncode, running.stdout) == (1, "")
    assert "Hermes is running; stop it first" in running.stderr
    elsewhere.chmod(0o500)
    unwritable = hermes("backup", str(elsewhere))
    elsewhere.chmod(0o700)
    assert unwritable.returncode == 1
    assert "No backup was made, and nothing was left behind: " in unwritable.stderr
    assert "Permission denied" in unwritable.stderr
    assert list(elsewhere.iterdir()) == []
