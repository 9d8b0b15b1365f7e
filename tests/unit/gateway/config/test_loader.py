"""Finding and reading the configuration."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.config.environment import provider_keys
from gateway.config.loader import SHIPPED, ensure_home, load
from gateway.config.schema import Config
from gateway.errors import ConfigError, StateDirectoryUnusable
from tests.support.ordinary_user import hermes


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a directory without a hermes.yaml."""
    directory = tmp_path / "elsewhere"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


def named(path: Path, name: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"model: {{name: {name}}}\n")
    return path


def test_search_order(private_home: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--config, $HERMES_CONFIG, $HERMES_HOME/hermes.yaml, the defaults: the first one wins."""
    assert load().path is None
    in_home = named(private_home / "hermes.yaml", "home")
    assert (load().config.model.name, load().path) == ("home", in_home)
    by_variable = named(elsewhere / "variable.yaml", "variable")
    monkeypatch.setenv("HERMES_CONFIG", str(by_variable))
    assert (load().config.model.name, load().path) == ("variable", by_variable)
    explicit = named(elsewhere / "explicit.yaml", "explicit")
    assert (load(explicit).config.model.name, load(explicit).path) == ("explicit", explicit)


def test_a_file_in_the_current_directory_is_ignored(private_home: Path, elsewhere: Path) -> None:
    """It is not even read, with or without a file of the owner."""
    here = elsewhere / "hermes.yaml"
    here.write_text("no: [yaml\n")
    assert (load().path, load().ignored) == (None, here)
    in_home = named(private_home / "hermes.yaml", "home")
    assert (load().path, load().ignored) == (in_home, here)
    here.unlink()
    here.symlink_to("/nowhere/at/all")
    assert (load().path, load().ignored) == (in_home, here)


def test_nothing_is_said_about_a_file_that_is_in_use_or_not_wanted(
    private_home: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file was named, or the current directory is the state directory."""
    named(elsewhere / "hermes.yaml", "here")
    explicit = named(elsewhere / "explicit.yaml", "explicit")
    assert load(explicit).ignored is None
    in_home = named(private_home / "hermes.yaml", "home")
    monkeypatch.chdir(private_home)
    assert (load().path, load().ignored) == (in_home, None)


def test_in_the_clone_its_own_file_is_in_use(private_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only if the running code is that of the clone."""
    monkeypatch.chdir(SHIPPED.parent)
    assert (load().path, load().ignored) == (SHIPPED, None)
    in_home = named(private_home / "hermes.yaml", "home")
    assert (load().path, load().ignored) == (in_home, None)


def test_a_changed_file_in_the_clone_is_not_ignored_in_silence(private_home: Path, tmp_path: Path) -> None:
    """The file in the state directory is used; an unchanged file of the clone gets no warning."""
    clone = tmp_path / "clone"
    clone.mkdir()
    for package in ("agent", "gateway", "plugins"):
        (clone / package).symlink_to(SHIPPED.parent / package)
    here, in_home = clone / "hermes.yaml", named(private_home / "hermes.yaml", "home")
    here.write_text(SHIPPED.read_text())

    def told() -> str:
        return subprocess.run(
            [sys.executable, "-P", "-m", "gateway.cli", "config", "show"],
            cwd=clone,
            env={**os.environ, "PYTHONPATH": str(clone)},
            capture_output=True,
            text=True,
            timeout=110,
            check=True,
        ).stderr

    assert told() == ""
    here.write_text("model: {name: mine}\n")
    assert f"{here} is ignored; settings come from {in_home}." in told()


def test_a_current_directory_that_is_gone(elsewhere: Path) -> None:
    elsewhere.rmdir()
    assert (load().path, load().ignored) == (None, None)


def test_without_any_file(private_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The defaults apply, and so do the variables in the shipped file."""
    monkeypatch.setenv("HERMES_WEB_TOKEN", "open sesame")
    loaded = load()
    assert loaded.home == private_home
    assert loaded.database == private_home / "state.db"
    assert loaded.config.model == Config().model
    token = loaded.config.platforms.web.token
    assert token and token.get_secret_value() == "open sesame"


def test_home_defaults_to_dot_hermes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HERMES_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load().home == tmp_path / ".hermes"


@pytest.mark.parametrize("content", ["", "# nothing yet\n", "---\n", "{}\n", "model:\ncompression:\n"])
def test_empty_files_mean_the_defaults(tmp_path: Path, content: str) -> None:
    path = tmp_path / "hermes.yaml"
    path.write_text(content)
    assert load(path).config == Config()


@pytest.mark.parametrize(
    ("path", "database"), [("null", "state.db"), ("other.db", "other.db"), ("/srv/h.db", "/srv/h.db")]
)
def test_database_path(tmp_path: Path, private_home: Path, path: str, database: str) -> None:
    """A relative path starts in the state directory."""
    file = tmp_path / "hermes.yaml"
    file.write_text(f"storage: {{path: {path}}}\n")
    assert load(file).database == private_home / database


def test_missing_explicit_file(tmp_path: Path) -> None:
    """Hermes does not use another file instead."""
    with pytest.raises(ConfigError, match=r"gone\.yaml: cannot be read: No such file or directory\."):
        load(tmp_path / "gone.yaml")


def test_missing_file_in_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the variable."""
    monkeypatch.setenv("HERMES_CONFIG", "/nowhere/hermes.yaml")
    with pytest.raises(ConfigError, match=r"No such file or directory \(HERMES_CONFIG names it\)"):
        load()


def test_directory_instead_of_file(private_home: Path) -> None:
    (private_home / "hermes.yaml").mkdir(parents=True)
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load()


def test_binary_and_huge_files(tmp_path: Path) -> None:
    """Neither is read as YAML; the message names the line of the first wrong byte."""
    path = tmp_path / "hermes.yaml"
    path.write_bytes(b"model:\n  name: \xff\xfe\n")
    with pytest.raises(ConfigError, match=r"hermes\.yaml:2: is not UTF-8 text\."):
        load(path)
    with pytest.raises(ConfigError, match="Is it the right file"):
        load(Path("/dev/zero"))


def test_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "hermes.yaml"
    path.write_text("model: {}\n")
    path.chmod(0)
    result = hermes("config", "check", HERMES_CONFIG=str(path))
    assert result.returncode == 2
    assert f"{path}: cannot be read: Permission denied (HERMES_CONFIG names it)." in result.stderr
    assert "Traceback" not in result.stderr


def test_unreadable_state_directory(private_home: Path) -> None:
    """The message names the directory and the variable to set."""
    private_home.mkdir(mode=0o000)
    result = hermes("config", "check")
    assert result.returncode == 1
    assert "set HERMES_HOME to a directory that you may read and write" in result.stderr
    assert str(private_home) in result.stderr
    assert "Traceback" not in result.stderr


def test_home_is_made_for_its_owner_only(private_home: Path) -> None:
    """The mode is 0700 with any umask."""
    before = os.umask(0)
    try:
        ensure_home(private_home)
    finally:
        os.umask(before)
    assert stat.S_IMODE(private_home.stat().st_mode) == 0o700


def test_home_that_is_a_file(private_home: Path) -> None:
    private_home.write_text("")
    with pytest.raises(StateDirectoryUnusable, match="File exists"):
        ensure_home(private_home)


def test_home_that_cannot_be_made() -> None:
    with pytest.raises(StateDirectoryUnusable, match="/proc/hermes"):
        ensure_home(Path("/proc/hermes"))


def test_dotenv_completes_the_environment(private_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the process come first; empty ones do not count."""
    private_home.mkdir()
    (private_home / ".env").write_text(
        "OPENAI_API_KEY='from file'\nexport ANTHROPIC_API_KEY=also\nOPENROUTER_API_KEY=\n"
    )
    assert provider_keys() == {"OPENAI_API_KEY": "from file", "ANTHROPIC_API_KEY": "also"}
    monkeypatch.setenv("OPENAI_API_KEY", "from process")
    assert provider_keys()["OPENAI_API_KEY"] == "from process"


def test_unreadable_dotenv(private_home: Path) -> None:
    private_home.mkdir()
    (private_home / ".env").touch(mode=0)
    result = hermes("config", "check")
    assert result.returncode == 2
    assert f"{private_home / '.env'}: cannot be read: Permission denied." in result.stderr


def test_binary_dotenv(private_home: Path) -> None:
    private_home.mkdir()
    (private_home / ".env").write_bytes(b"A=\xff\n")
    with pytest.raises(ConfigError, match=r"\.env: cannot be read: it is not UTF-8 text"):
        provider_keys()
