"""`hermes service`, with a systemctl and a journalctl of the test's own on the PATH."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.cli.service import configuration_in, unit_text
from gateway.config.loader import load
from tests.support import warm
from tests.support.hermes_process import environment, hermes
from tests.support.warm import HERMES

_FAKE = """#!/bin/sh
echo "$(basename "$0") $*" >> "{calls}"
case "$*" in
  *"{fails}"*) echo "{says}" >&2; exit 1;;
  *status*) echo "hermes.service - active (running)"; exit 3;;
  *--unit*) echo "a line of the journal";;
esac
"""


class ServiceHarness:
    """A person's machine: their folders, and systemd's programs if there are any."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.unit = folder / "config" / "systemd" / "user" / "hermes.service"
        self._programs = folder / "bin"
        self._programs.mkdir()
        self._calls = folder / "calls"
        self.variables = {"PATH": str(self._programs), "XDG_CONFIG_HOME": str(folder / "config")}

    def with_systemd(self, *, fails: str = "nothing at all", says: str = "") -> ServiceHarness:
        for name in ("systemctl", "journalctl"):
            program = self._programs / name
            program.write_text(_FAKE.format(calls=self._calls, fails=fails, says=says))
            program.chmod(0o755)
        for name in ("sh", "basename"):
            found = shutil.which(name)
            assert found
            (self._programs / name).unlink(missing_ok=True)
            (self._programs / name).symlink_to(found)
        return self

    def service(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return warm.run([*HERMES, "service", *arguments], env=environment(self.home, **self.variables))

    @property
    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines() if self._calls.exists() else []


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceHarness:
    monkeypatch.chdir(tmp_path)
    return ServiceHarness(tmp_path)


def _settings(unit: str) -> dict[str, str]:
    lines = [line for line in unit.splitlines() if "=" in line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_install_start_look_and_remove(harness: ServiceHarness) -> None:
    """From nothing to a service that starts at every login, and back to nothing."""
    harness.with_systemd()
    installed = harness.service("install")
    assert installed.returncode == 0, installed.stderr
    assert f"Wrote {harness.unit}" in installed.stdout
    assert "loginctl enable-linger" in installed.stdout
    assert harness.calls == [
        "systemctl --user daemon-reload",
        "systemctl --user enable hermes.service",
        "systemctl --user restart hermes.service",
    ]
    assert harness.unit.read_text() == harness.service("install", "--print").stdout

    status = harness.service("status")
    assert status.stdout == "hermes.service - active (running)\n"
    assert status.returncode == 3, "what systemctl says about it"
    assert harness.service("logs", "-f", "-n", "7").stdout == "a line of the journal\n"
    assert harness.calls[-1] == "journalctl --user --unit hermes.service --lines 7 --no-pager --follow"

    removed = harness.service("uninstall")
    assert removed.returncode == 0 and not harness.unit.exists()
    assert harness.calls[-2:] == [
        "systemctl --user disable --now hermes.service",
        "systemctl --user daemon-reload",
    ]
    assert "nothing to remove" in harness.service("uninstall").stdout


def test_no_start(harness: ServiceHarness) -> None:
    """Install without starting, so that the user can read the unit first."""
    assert harness.with_systemd().service("install", "--no-start").returncode == 0
    assert [call for call in harness.calls if "start" in call] == []


def test_the_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths with any characters stay unchanged; the stop timeout allows for the drain time."""
    home = tmp_path / 'a "home" of 100% $HOME'
    home.mkdir()
    (home / "hermes.yaml").write_text(
        "gateway: {drain_seconds: 90.5}\nstorage: {path: ../elsewhere/state.db}\n"
    )
    monkeypatch.setenv("HERMES_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    settings = _settings(text := unit_text(load()))
    assert configuration_in(text) == home / "hermes.yaml"
    written = str(home).replace('"', '\\"').replace("%", "%%")
    assert settings["ExecStart"] == (
        f'"{sys.executable}" "-P" "-m" "gateway.cli" "--config" "{written.replace("$", "$$")}/hermes.yaml" "run"'
    )
    assert settings["WorkingDirectory"] == str(home).replace("%", "%%")
    assert settings["Environment"] == f'"HERMES_HOME={written}"'
    assert settings["ReadWritePaths"].startswith(f'"{written}" "{written}/../elsewhere"')
    assert settings["TimeoutStopSec"] == "121"
    assert settings["Type"] == "notify" and settings["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert settings["WatchdogSec"] == "60", "or a blocked event loop would not be restarted"


def test_a_tmp_of_its_own_where_nothing_it_needs_is_in_there(harness: ServiceHarness) -> None:
    """With the state directory below /tmp, the service would not find it and not start."""
    elsewhere = replace(load(), home=Path("/srv/hermes"), path=None)
    if not Path(__file__).is_relative_to("/tmp"):
        assert _settings(unit_text(elsewhere))["PrivateTmp"] == "yes"
        assert _settings(unit_text(elsewhere))["ReadWritePaths"] == '"/srv/hermes"'
    below = unit_text(replace(elsewhere, home=Path("/tmp/hermes")))
    assert "PrivateTmp" not in _settings(below)
    assert "# No PrivateTmp: it would hide /tmp/hermes\n" in below
    assert _settings(below)["ReadWritePaths"] == '"/tmp/hermes" "/tmp"'


def test_hardening_that_works_without_privileges(harness: ServiceHarness) -> None:
    """What a user's manager cannot do, or what bubblewrap would break on, is not in it."""
    settings = _settings(harness.service("install", "--print").stdout)
    assert settings["NoNewPrivileges"] == settings["LockPersonality"] == "yes"
    assert settings["ProtectSystem"] == "strict" and settings["Restart"] == "on-failure"
    assert "AF_NETLINK" in settings["RestrictAddressFamilies"], "for the loopback device of a sandbox"
    assert {"@mount", "sethostname"} <= set(settings["SystemCallFilter"].split()), (
        "for its file system and name"
    )
    assert settings.keys().isdisjoint(
        {
            "CapabilityBoundingSet",
            "PrivateDevices",
            "ProtectKernelModules",
            "ProtectKernelLogs",
            "ProtectClock",
        }
    ), "218/CAPABILITIES"
    assert settings.keys().isdisjoint(
        {"RestrictNamespaces", "ProtectKernelTunables", "ProtectProc", "ProcSubset", "ProtectHostname"}
    ), "no sandbox could be made"
    assert settings.keys().isdisjoint({"PrivateUsers", "User", "MemoryDenyWriteExecute"})


def test_what_the_service_may_use(harness: ServiceHarness) -> None:
    """Memory, tasks and descriptors; a command of the agent that takes too much does not end Hermes."""
    settings = _settings(harness.service("install", "--print").stdout)
    assert (settings["MemoryMax"], settings["TasksMax"], settings["LimitNOFILE"]) == ("4G", "1024", "65536")
    assert settings["OOMPolicy"] == "continue"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_it(harness: ServiceHarness, tmp_path: Path) -> None:
    """Every key and every value, by systemd's own judgement."""
    harness.home.mkdir()
    unit = tmp_path / "hermes.service"
    unit.write_text(harness.service("install", "--print").stdout)
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    verified = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(unit)],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [["install"], ["status"], ["logs"], ["uninstall"]])
def test_without_systemd(harness: ServiceHarness, arguments: list[str]) -> None:
    """A sentence that says what to do, and nothing is written or removed."""
    if arguments != ["install"]:
        harness.unit.parent.mkdir(parents=True)
        harness.unit.write_text("")
    refused = harness.service(*arguments)
    assert refused.returncode == 1
    assert "so this machine does not use systemd. Start `hermes run` another way" in refused.stderr
    assert harness.unit.exists() == (arguments != ["install"])


@pytest.mark.parametrize("command", ["status", "logs"])
def test_not_installed(harness: ServiceHarness, command: str) -> None:
    """The command that helps is named."""
    refused = harness.with_systemd().service(command)
    assert refused.returncode == 1
    assert "not installed; `hermes service install` does that" in refused.stderr


def test_no_session(harness: ServiceHarness) -> None:
    """The usual case after `su`."""
    harness.with_systemd(fails="daemon-reload", says="Failed to connect to bus: No medium found")
    refused = harness.service("install")
    assert refused.returncode == 1
    assert "Failed to connect to bus: No medium found" in refused.stderr
    assert "Log in as this user" in refused.stderr
    harness.with_systemd(fails="disable", says="Failed to connect to bus: No medium found")
    assert harness.service("uninstall").returncode == 1
    assert not harness.unit.exists(), "or it would start at the next login"


def test_it_does_not_start(harness: ServiceHarness) -> None:
    """Where to read why."""
    harness.with_systemd(fails="restart", says="Job for hermes.service failed.")
    refused = harness.service("install")
    assert refused.returncode == 1
    assert "Job for hermes.service failed. `hermes service logs` shows why." in refused.stderr


def test_a_broken_configuration_is_not_installed(harness: ServiceHarness) -> None:
    """It would not start."""
    harness.with_systemd()
    harness.home.mkdir()
    (harness.home / "hermes.yaml").write_text("modle: {}\n")
    refused = harness.service("install")
    assert refused.returncode == 2 and "modle: unknown key" in refused.stderr
    assert harness.calls == [] and not harness.unit.exists()


def test_variables_of_this_shell(harness: ServiceHarness) -> None:
    """A key that a service would not have is named, and one that is in `.env` is not."""
    harness.with_systemd()
    harness.home.mkdir()
    (harness.home / ".env").write_text("OPENAI_API_KEY=sk-kept\n")
    (harness.home / "hermes.yaml").write_text(
        "platforms: {web: {token: '${PAGE_TOKEN}'}}\nstorage: {path: db/x.db}\n"
    )
    harness.variables |= {
        "OPENAI_API_KEY": "sk-x",
        "ANTHROPIC_API_KEY": "sk-y",
        "PAGE_TOKEN": "a-long-password",
    }
    shown = warm.run(
        [*HERMES, "--config", str(harness.home / "hermes.yaml"), "service", "install"],
        env=environment(harness.home, **harness.variables),
    ).stdout
    assert "ANTHROPIC_API_KEY, PAGE_TOKEN are set in this shell only" in shown
    assert f"add them to {harness.home / '.env'}" in shown
    assert "sk-" not in shown and "a-long-password" not in shown
    assert (harness.home / "db").is_dir(), "a folder that it may write into has to be there"


def test_a_unit_that_is_out_of_date(harness: ServiceHarness, tmp_path: Path) -> None:
    """After its content has changed."""
    harness.with_systemd().service("install")
    (harness.home / "hermes.yaml").write_text("gateway: {drain_seconds: 60}\n")
    assert "is not what" in harness.service("status").stdout
    harness.service("install")
    (tmp_path / "hermes.yaml").write_text("gateway: {drain_seconds: 5}\n")
    assert "is not what" not in harness.service("status").stdout, (
        "another file that lies here is not the service's"
    )
    (harness.home / "hermes.yaml").write_text("gateway: {drain_seconds: 90}\n")
    assert "is not what `hermes service install` would write now" in harness.service("status").stdout


@pytest.mark.parametrize("is_abstract", [False, True])
async def test_the_manager_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_abstract: bool
) -> None:
    """Ready once everything is up, stopping when it is told to: what `Type=notify` waits for."""
    address = f"@hermes-test-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address.replace("@", "\0", 1) if is_abstract else address)
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(60):
            async with hermes(tmp_path / "home", {}):
                assert await loop.sock_recv(manager, 1000) == b"READY=1"
            assert await loop.sock_recv(manager, 1000) == b"STOPPING=1"
