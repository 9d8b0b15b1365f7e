"""`hermes plugins` as a process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gateway.config.loader import SHIPPED, load
from tests.support.foreign_plugins import ENGINE, REGISTER, write_engine, write_plugin
from tests.support.hermes_process import environment
from tests.support.ordinary_user import hermes
from tests.support.terminal import Terminal

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a directory without a hermes.yaml."""
    directory = tmp_path / "elsewhere"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture
def file(private_home: Path) -> Path:
    """A person's own configuration, with comments."""
    private_home.mkdir(exist_ok=True)
    path = private_home / "hermes.yaml"
    path.write_text("# mine\ncontext:   # what keeps it short\n  engine: compressor  # for now\n")
    return path


def test_a_new_installation() -> None:
    """The default engine is active, and a pipe is asked no question."""
    shown = hermes("plugins")
    assert shown.returncode == 0, shown.stderr
    lines = [line.rstrip() for line in shown.stdout.splitlines()]
    assert lines[:5] == [lines[0], "    none", "", "Provider Plugins", "  Context Engine: compressor"]
    assert lines[5].startswith("  * compressor      (built-in)  ")
    assert any(line.startswith("    sliding_window  (project, 1.0.0)  ") for line in lines[6:])


def test_the_list_says_what_is_wrong(private_home: Path, file: Path) -> None:
    write_plugin(private_home, "", "idle")
    write_plugin(private_home, "import no_such_library\n", "bad")
    write_plugin(private_home, "print('hello')\n" + ENGINE + REGISTER, "good")
    write_engine(private_home, "x = 1 / 0\n", "torn")
    file.write_text("context: {engine: torm}\nplugins: {enabled: [bad, good, gone]}\n")
    shown = hermes("plugins", "list")
    assert shown.returncode == 0, shown.stderr
    for line in (
        "  * bad             (enabled, 1.2)  broken: ModuleNotFoundError: No module named 'no_such_library'",
        "  * good            (enabled, 1.2)  Made by a stranger.",
        "    idle            (not enabled, 1.2)  Made by a stranger.",
        "  Context Engine: torm (there is no such engine)",
        "    torn            (home, 1.2)  broken: ZeroDivisionError: division by zero",
        "    mine            (plugin good, 1.2)  Made by a stranger.",
    ):
        assert f"{line}\n" in shown.stdout
    assert "broken: There is no `gone`" in shown.stdout
    assert "hello" not in shown.stdout


def test_the_list_for_machines(private_home: Path) -> None:
    """The JSON has folders and tracebacks, but no output of plugins."""
    folder = write_engine(private_home, "print('hello')\nx = 1 / 0\n", "torn")
    listed = json.loads(hermes("plugins", "list", "--json").stdout)
    assert listed["plugins"] == []
    (torn,) = [engine for engine in listed["context_engines"] if engine["name"] == "torn"]
    assert (torn["folder"], torn["active"], torn["origin"]) == (str(folder), False, "home")
    assert "1 / 0" in torn["traceback"]


def test_use_writes_one_value(file: Path) -> None:
    """Comments stay, and the answer says to restart Hermes."""
    used = hermes("plugins", "use", "sliding_window")
    assert used.returncode == 0, used.stderr
    assert f"Wrote context.engine: sliding_window to {file}. Restart Hermes" in used.stdout
    assert (
        file.read_text() == "# mine\ncontext:   # what keeps it short\n  engine: sliding_window  # for now\n"
    )
    assert "  Context Engine: sliding_window\n" in hermes("plugins", "list").stdout
    assert hermes("plugins", "use", "compressor").returncode == 0
    assert load().config.context.engine == "compressor"


def test_use_without_a_file_makes_one(private_home: Path) -> None:
    """It copies the shipped file into the state directory."""
    assert hermes("plugins", "use", "sliding_window").returncode == 0
    written = (private_home / "hermes.yaml").read_text()
    assert written == SHIPPED.read_text().replace("engine: compressor", "engine: sliding_window")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("slidingwindow", "Did you mean `sliding_window`?"),
        ("torn", "1 / 0"),
        ("renamed", "calls itself `mine`"),
    ],
)
def test_use_refuses_what_would_not_start(private_home: Path, file: Path, name: str, complaint: str) -> None:
    """The exit code is 2, and the file stays as it was."""
    write_engine(private_home, "x = 1 / 0\n", "torn")
    write_engine(private_home, ENGINE, "renamed")
    before = file.read_text()
    refused = hermes("plugins", "use", name)
    assert refused.returncode == 2
    assert complaint in refused.stderr
    assert f"{private_home}/plugins/context_engine\n" in refused.stderr
    assert f"{ROOT}/plugins/context_engine\n" in refused.stderr
    assert file.read_text() == before


def test_a_broken_plugin_does_not_lock_one_out(private_home: Path, file: Path) -> None:
    """Commands that repair the configuration work while Hermes cannot start."""
    write_plugin(private_home, "import no_such_library\n", "bad")
    file.write_text("plugins: {enabled: [bad]}\ncontext: {engine: lost}\n")
    assert hermes("plugins", "use", "sliding_window").returncode == 0
    assert hermes("plugins", "disable", "bad").returncode == 0
    config = load().config
    assert (config.context.engine, config.plugins.enabled) == ("sliding_window", ())


def test_enable_and_disable(private_home: Path, file: Path) -> None:
    """Doing it twice is not an error."""
    write_plugin(private_home, ENGINE + REGISTER)
    before = file.read_text()
    assert "acme is not enabled." in hermes("plugins", "disable", "acme").stdout
    assert "acme is enabled. Restart Hermes" in hermes("plugins", "enable", "acme").stdout
    assert "acme is already enabled." in hermes("plugins", "enable", "acme").stdout
    assert file.read_text() == f"{before}plugins:\n  enabled: [acme]\n"
    assert hermes("plugins", "use", "mine").returncode == 0
    refused = hermes("plugins", "disable", "acme")
    assert refused.returncode == 2
    assert "provides the context engine in use, mine" in refused.stderr
    assert hermes("plugins", "use", "compressor").returncode == 0
    assert "acme is disabled. Restart Hermes" in hermes("plugins", "disable", "acme").stdout
    assert load().config.plugins.enabled == ()


@pytest.mark.parametrize(("name", "complaint"), [("acmee", "Did you mean `acme`?"), ("acme", "in register")])
def test_enable_refuses_what_would_not_start(
    private_home: Path, file: Path, name: str, complaint: str
) -> None:
    write_plugin(private_home, "def register(ctx):\n    ctx.no_such_door()\n")
    before = file.read_text()
    refused = hermes("plugins", "enable", name)
    assert refused.returncode == 2
    assert complaint in refused.stderr
    assert file.read_text() == before


async def test_choosing_at_a_terminal(private_home: Path, file: Path) -> None:
    """A wrong answer is asked again, and Enter keeps the engine."""
    command = [sys.executable, "-m", "gateway.cli", "--config", str(file), "plugins"]
    env = environment(private_home, PYTHONPATH=str(ROOT))
    async with Terminal.run(*command, env=env, columns=160) as terminal:
        await terminal.until("Context engine to use (compressor, lcm, sliding_window) [compressor]:")
        assert "Provider Plugins" in terminal.screen.text
        terminal.type("slidingwindow\r")
        await terminal.until("is not one of")
        terminal.type("sliding_window\r")
        await terminal.until("Wrote context.engine: sliding_window")
        assert await terminal.ended() == 0
    async with Terminal.run(*command, env=env, columns=160) as terminal:
        await terminal.until("[sliding_window]:")
        terminal.type("\r")
        await terminal.until("sliding_window stays.")
        assert await terminal.ended() == 0


def test_help_imports_nothing_heavy() -> None:
    """It runs no plugin."""
    shown = hermes("plugins", "--help")
    assert shown.returncode == 0
    for command in ("list", "use", "enable", "disable"):
        assert f"\n  {command} " in shown.stdout
