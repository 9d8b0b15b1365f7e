"""The command line as a process: help, version, completion, and what happens when something is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from gateway.cli import COMMANDS, cli
from gateway.cli.docs import all_commands

HEAVY = ("pydantic", "rich", "aiohttp", "prompt_toolkit", "structlog", "yaml", "gateway.config")


def hermes(*arguments: str, **how: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gateway.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **how)  # type: ignore[call-overload]


def with_command_that_raises(exception: str) -> subprocess.CompletedProcess[str]:
    script = (
        "import click\nfrom gateway.cli import cli, main\n"
        f"def fail(): raise {exception}\n"
        "cli.add_command(click.Command('failing', callback=fail))\n"
        "main()"
    )
    return subprocess.run(
        [sys.executable, "-c", script, "failing"], capture_output=True, text=True, timeout=60
    )


def test_help_groups_the_commands() -> None:
    """A newcomer reads what there is, in groups, and where to begin."""
    shown = hermes("--help")
    assert shown.returncode == 0
    sections = [line for line in shown.stdout.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert sections == ["Talk:", "Look:", "Keep:", "Set up:", "Options:"]
    width = max(map(len, COMMANDS))
    for name, entry in COMMANDS.items():
        assert f"  {name:<{width}}  {entry.summary}" in shown.stdout.splitlines()


def test_every_command_in_the_index_is_there() -> None:
    """The index names commands without importing them, so only a test can hold the two together."""
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        assert command.name == name
        assert command.help


def test_version() -> None:
    """It is the installed one."""
    assert hermes("--version").stdout == f"hermes, version {version('hermes-gateway')}\n"


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["chat", "--help"], ["sessions", "--help"]])
def test_asking_for_help_imports_nothing_heavy(arguments: list[str]) -> None:
    """These answer at once because no library is loaded for them."""
    script = (
        "import sys\nfrom gateway.cli import main\n"
        "try:\n    main()\n"
        f"finally:\n    print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, *arguments]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert shown.stderr == "[]\n"


def test_a_mistyped_command_is_corrected() -> None:
    """Usage errors are exit code 2 and name the nearest command."""
    refused = hermes("session")
    assert refused.returncode == 2
    assert "Did you mean 'sessions'?" in refused.stderr


def test_our_errors_are_one_sentence_and_an_exit_code(tmp_path: Path) -> None:
    """No traceback for what a person can mend; the code says that it is the configuration."""
    broken = tmp_path / "broken.yaml"
    broken.write_text("modle: {}\n")
    refused = hermes("--config", str(broken), "sessions", "list")
    assert refused.returncode == 2
    assert refused.stderr.startswith("hermes: The configuration cannot be used:")
    assert "modle" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_bug_keeps_its_traceback() -> None:
    """An unexpected error is not disguised as a sentence."""
    crashed = with_command_that_raises("ZeroDivisionError('a bug')")
    assert crashed.returncode == 1
    assert "ZeroDivisionError: a bug" in crashed.stderr


def test_a_reader_that_leaves_is_no_error() -> None:
    """`hermes --help | true` says nothing on standard error."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "gateway.cli", "--help"]
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writing)
    assert ended.stderr == ""
    assert ended.returncode == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell: str) -> None:
    """The script calls back with the variable that `hermes` listens to."""
    script = hermes("completion", shell).stdout
    assert f"_HERMES_COMPLETE={shell}_complete" in script


def test_completion_knows_commands_and_options() -> None:
    """Completing a command's name needs no import of the command."""
    asked = {**os.environ, "_HERMES_COMPLETE": "bash_complete", "COMP_CWORD": "1"}
    assert hermes(env={**asked, "COMP_WORDS": "hermes se"}).stdout.split() == [
        "plain,sessions",
        "plain,setup",
        "plain,service",
    ]
    assert "plain,--config" in hermes(env={**asked, "COMP_WORDS": "hermes --c"}).stdout


def test_interrupted_is_130() -> None:
    """A command that Ctrl-C ends leaves the exit code shells expect."""
    assert with_command_that_raises("KeyboardInterrupt").returncode == 130


@pytest.mark.parametrize(
    "arguments",
    [
        ["--config", "FILE", "config", "show"],
        ["config", "--config", "FILE", "show"],
        ["config", "show", "--config", "FILE"],
        ["--config", "FILE", "config", "show", "--config", "./FILE"],
    ],
)
def test_the_configuration_is_named_before_or_behind_the_command(
    tmp_path: Path, arguments: list[str]
) -> None:
    """People write it where they think of it."""
    (tmp_path / "FILE").write_text("model: {name: openai/named}\n")
    shown = hermes(*arguments, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert f"# Settings: {tmp_path / 'FILE'}" in shown.stdout and "openai/named" in shown.stdout


def test_the_gateway_is_started_with_the_file_behind_run(tmp_path: Path) -> None:
    """`hermes run --config FILE` uses the file: what is wrong with it is named."""
    file = tmp_path / "mine.yaml"
    file.write_text("modle: {}\n")
    refused = hermes("run", "--config", str(file))
    assert refused.returncode == 2
    assert f"{file}:1" in refused.stderr and "Traceback" not in refused.stderr


def test_two_configurations_are_refused(tmp_path: Path) -> None:
    """Neither is taken quietly."""
    refused = hermes("--config", "one.yaml", "config", "show", "--config", "two.yaml", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--config names two files: one.yaml and two.yaml." in refused.stderr


def test_every_command_takes_the_configuration() -> None:
    """One mechanism for all of them, also for commands within commands."""
    commands = all_commands()
    assert len(commands) > 30
    missing = [
        name
        for name, command in commands.items()
        if not any("--config" in param.opts for param in command.params)
    ]
    assert not missing


def test_the_exit_is_an_ordinary_one() -> None:
    """Exit handlers run even when the model library is loaded: they flush logs, traces and streams."""
    code = (
        "import atexit, sys, types\n"
        "sys.modules['litellm'] = types.ModuleType('litellm')\n"
        "sys.argv = ['hermes', '--version']\n"
        "atexit.register(print, 'flushed')\n"
        "from gateway.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.endswith("flushed\n")
