"""`hermes logs`, and the log file that it reads."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gateway.cli.logs_command import LogReader
from gateway.observability.logs import BACKUPS, MAX_BYTES, JsonLogFile, all_files, log_file
from tests.support import warm
from tests.support.hermes_process import WebClient, hermes
from tests.support.terminal import Terminal
from tests.support.warm import HERMES

KEY = "sk-ant-api03-" + "fA4e" * 12


def logs(*arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run([*HERMES, "logs", *arguments])


def write_log(home: Path, *events: dict[str, object]) -> Path:
    home.mkdir(mode=0o700, exist_ok=True)
    path = log_file(home)
    with closing(JsonLogFile(path)) as file:
        for event in events:
            file.write({"level": "info", "timestamp": "2026-11-17T10:00:00Z", **event})
    return path


async def test_the_log_of_a_gateway(private_home: Path) -> None:
    """A real gateway writes a private file of JSON lines; `hermes logs` prints them for people and for programs."""
    async with (
        hermes(private_home, {}) as process,
        WebClient.open(process.url, "1") as person,
    ):
        await person.say("/help")
    path = log_file(private_home)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    events = [json.loads(line)["event"] for line in path.read_text().splitlines()]
    assert {"gateway.started", "gateway.stopping"} <= set(events)
    assert [json.loads(line)["event"] for line in logs("--json").stdout.splitlines()] == events
    assert "gateway.started" in logs().stdout


def test_selected_lines(private_home: Path) -> None:
    """Lines are selected by number, level and conversation; control characters are shown as text."""
    write_log(
        private_home,
        {"event": "first"},
        {"event": "second", "level": "warning", "conversation": "conv_abc"},
        {
            "event": "third \x1b[31m",
            "level": "error",
            "conversation": "conv_xyz",
            "exception": "Traceback\n  boom",
        },
    )
    with log_file(private_home).open("a") as file:
        file.write('{"half a line\n[1]\n')
    assert [line.split()[3] for line in logs("-n", "2").stdout.splitlines()[:2]] == ["second", "third"]
    shown = logs("--level", "error").stdout
    assert (
        "third \\x1b[31m conversation=conv_xyz\n    Traceback\n      boom" in shown and "second" not in shown
    )
    assert logs("--conversation", "abc").stdout.split()[3:] == ["second", "conversation=conv_abc"]
    assert logs("--conversation", "conv_nothing").stdout == ""
    assert logs("-n", "0").stdout == ""
    assert logs("--level", "loud").returncode == logs("-n", "many").returncode == 2


def test_logs_work_with_a_broken_configuration(private_home: Path) -> None:
    write_log(private_home, {"event": "config.rejected"})
    (private_home / "hermes.yaml").write_text("logging: [\n")
    seen = warm.run([*HERMES, "--config", str(private_home / "hermes.yaml"), "logs"])
    assert seen.returncode == 0 and "config.rejected" in seen.stdout
    assert seen.stderr.startswith("hermes: The configuration cannot be used")


async def test_following(private_home: Path) -> None:
    """New lines are printed as they are written, also after a rotation; Ctrl-C ends the command."""
    path = await asyncio.to_thread(write_log, private_home, {"event": "before"})
    async with Terminal.run(*HERMES, "logs", "-f", env=os.environ) as terminal:
        await terminal.until("before")
        await asyncio.to_thread(write_log, private_home, {"event": "appended"})
        await terminal.until("appended")
        path.rename(path.with_name("hermes.log.1"))
        await asyncio.to_thread(write_log, private_home, {"event": "after_rotation"})
        await terminal.until("after_rotation")
        terminal.interrupt()
        assert await terminal.ended() == 130


def test_a_partial_line_is_completed_first(private_home: Path) -> None:
    path = write_log(private_home, {"event": "before"})
    line = json.dumps({"event": "whole"})
    with path.open("a") as file, closing(LogReader("debug", None)) as reader:
        file.write(line[:9])
        file.flush()
        assert [event["event"] for event in reader.last(path, 10)] == ["before"]
        file.write(f"{line[9:]}\n")
        file.flush()
        assert next(reader.follow(path))["event"] == "whole"


def test_rotation(private_home: Path) -> None:
    """A full file is rotated, the oldest is deleted, every file is private, and `hermes logs` reads all of them."""
    filler = "x" * (MAX_BYTES // 4)
    path = write_log(private_home, *({"event": f"number_{number}", "filler": filler} for number in range(30)))
    files = all_files(path)
    assert len(files) == BACKUPS + 1 and all(file.stat().st_size <= MAX_BYTES for file in files)
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    events = [json.loads(line)["event"] for line in logs("--json", "-n", "1000").stdout.splitlines()]
    assert events[-1] == "number_29" and events == sorted(events) and len(events) < 30


def test_a_log_file_that_cannot_be_written(private_home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A full disk or a wrong owner costs the log file, not the gateway, and adds nothing to standard error."""
    private_home.mkdir()
    (private_home / "logs").write_text("a file in its way")
    write_log(private_home, {"event": "lost"})
    assert (private_home / "logs").read_text() == "a file in its way"
    assert capfd.readouterr() == ("", "")


def test_no_secrets_and_the_traceback_of_a_crash(private_home: Path) -> None:
    """The file has the lines of standard error, redacted, and the traceback of the exception that ended the process."""
    private_home.mkdir()
    script = (
        "import structlog\nfrom pathlib import Path\nfrom gateway.observability.logs import configure_logging\n"
        f"configure_logging('info', 'human', file=Path({str(log_file(private_home))!r}))\n"
        f"structlog.get_logger().info('called', url='https://example.org/?key={KEY}')\n"
        f"raise RuntimeError('refused {KEY}')"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    text = log_file(private_home).read_text()
    assert KEY not in text + ended.stderr
    called, crashed = map(json.loads, text.splitlines())
    assert called["event"] == "called" and crashed["level"] == "critical"
    assert "RuntimeError: refused" in crashed["exception"]


def test_no_log_yet(private_home: Path) -> None:
    """Without a log the command names the file to come, or says that `logging.file` is off."""
    first = logs()
    assert (first.returncode, first.stdout) == (0, "")
    assert "`hermes run` writes" in first.stderr
    private_home.mkdir()
    (private_home / "hermes.yaml").write_text("logging: {file: false}\n")
    off = warm.run([*HERMES, "--config", str(private_home / "hermes.yaml"), "logs"])
    assert "`logging.file` is off" in off.stderr
