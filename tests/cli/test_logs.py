"""`hermes logs`, and the file that it reads."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from gateway.cli.logs_command import Reader
from gateway.observability.log_file import LARGEST, OLDER, Kept, all_files, log_file
from tests.worlds import warm
from tests.worlds.hermes_process import WebClient, hermes
from tests.worlds.terminal import Terminal
from tests.worlds.warm import HERMES

KEY = "sk-ant-api03-" + "fA4e" * 12


def logs(*arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run([*HERMES, "logs", *arguments])


def kept(home: Path, *events: dict[str, object]) -> Path:
    home.mkdir(mode=0o700, exist_ok=True)
    path = log_file(home)
    keep = Kept(path)
    for event in events:
        keep.write({"level": "info", "timestamp": "2026-11-17T10:00:00Z", **event})
    keep.close()
    return path


async def test_what_a_gateway_logs(private_home: Path) -> None:
    """A real one: private, JSON, with the ids, and read again for people and for programs."""
    async with (
        hermes(private_home, {}) as process,
        WebClient.open(process.url, "1") as person,
    ):
        await person.say("/help")
    path = log_file(private_home)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    events = [json.loads(line)["event"] for line in path.read_text().splitlines()]
    assert {"gateway.watchdog", "gateway.stopping"} <= set(events)
    assert [json.loads(line)["event"] for line in logs("--json").stdout.splitlines()] == events
    assert "gateway.watchdog" in logs().stdout


def test_what_is_shown(private_home: Path) -> None:
    """The newest, of a level, about a conversation; nothing in a line steers the terminal."""
    kept(
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


def test_a_broken_configuration_keeps_nobody_from_looking(private_home: Path) -> None:
    """It is the log that may say what is wrong."""
    kept(private_home, {"event": "config.refused"})
    (private_home / "hermes.yaml").write_text("logging: [\n")
    seen = warm.run([*HERMES, "--config", str(private_home / "hermes.yaml"), "logs"])
    assert seen.returncode == 0 and "config.refused" in seen.stdout
    assert seen.stderr.startswith("hermes: The configuration cannot be used")


async def test_following(private_home: Path) -> None:
    """What comes is shown as it comes, also when the file is full and another begins; Ctrl-C leaves."""
    path = await asyncio.to_thread(kept, private_home, {"event": "before"})
    async with Terminal.run(*HERMES, "logs", "-f", env=os.environ) as terminal:
        await terminal.until("before")
        await asyncio.to_thread(kept, private_home, {"event": "while_it_looks"})
        await terminal.until("while_it_looks")
        path.rename(path.with_name("hermes.log.1"))
        await asyncio.to_thread(kept, private_home, {"event": "in_another_file"})
        await terminal.until("in_another_file")
        terminal.interrupt()
        assert await terminal.ended() == 130


def test_half_a_line_is_waited_for(private_home: Path) -> None:
    """Whoever looks while a line is being written sees it whole, once."""
    path = kept(private_home, {"event": "before"})
    line = json.dumps({"event": "whole"})
    with path.open("a") as file, closing(Reader("debug", None)) as reader:
        file.write(line[:9])
        file.flush()
        assert [event["event"] for event in reader.last(path, 10)] == ["before"]
        file.write(f"{line[9:]}\n")
        file.flush()
        assert next(reader.coming(path))["event"] == "whole"


def test_it_does_not_grow_without_bounds(private_home: Path) -> None:
    """Some files of a size; the oldest is forgotten, and reading goes over all of them in order."""
    filler = "x" * (LARGEST // 4)
    path = kept(private_home, *({"event": f"number_{number}", "filler": filler} for number in range(30)))
    files = all_files(path)
    assert len(files) == OLDER + 1 and all(file.stat().st_size <= LARGEST for file in files)
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    events = [json.loads(line)["event"] for line in logs("--json", "-n", "1000").stdout.splitlines()]
    assert events[-1] == "number_29" and events == sorted(events) and len(events) < 30


def test_where_nothing_can_be_written_nothing_happens(private_home: Path) -> None:
    """A full disk or a wrong owner costs the log file, not the gateway."""
    private_home.mkdir()
    (private_home / "logs").write_text("a file in its way")
    kept(private_home, {"event": "lost"})
    assert (private_home / "logs").read_text() == "a file in its way"


def test_no_secret_and_the_last_words_of_a_crash(private_home: Path) -> None:
    """The file has what standard error has: redacted, and with the traceback of what ended the process."""
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


def test_nothing_yet(private_home: Path) -> None:
    """Says where it will be, or that it is switched off; no error."""
    first = logs()
    assert (first.returncode, first.stdout) == (0, "")
    assert "`hermes run` writes" in first.stderr
    private_home.mkdir()
    (private_home / "hermes.yaml").write_text("logging: {file: false}\n")
    off = warm.run([*HERMES, "--config", str(private_home / "hermes.yaml"), "logs"])
    assert "`logging.file` is off" in off.stderr
