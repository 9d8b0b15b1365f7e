"""The systemd user unit of `hermes service install`, with the reasons for its settings.

A user's service manager has no privileges, and Hermes runs bubblewrap in user namespaces. So three kinds of hardening
are left out on purpose:

- settings that remove capabilities (`CapabilityBoundingSet`, `ProtectKernelModules`, `ProtectKernelLogs`,
  `ProtectClock`, `PrivateDevices`): where the manager may not remove them, the service does not start
  (218/CAPABILITIES). A user's processes do not have them anyway.
- settings that break bubblewrap: `RestrictNamespaces`; `ProtectHostname`, because a sandbox sets its own host name;
  `ProtectKernelTunables`, `ProtectProc` and `ProcSubset`, because a process that sees only parts of /proc cannot
  mount a new one.
- `PrivateUsers`: without user namespaces the service would not start. Settings that need a private view of the file
  system enable it themselves where possible, and are ignored elsewhere.

`MemoryDenyWriteExecute` would end programs that commands of the agent run, such as node.
"""

from __future__ import annotations

import re
import sys
from math import ceil
from pathlib import Path

from gateway.config.loader import LoadedConfig

UNIT = "hermes.service"
_BAD_CONFIGURATION = 2
"""The exit code after which systemd does not restart Hermes."""
_WATCHDOG_SECONDS = 60
_BEYOND_DRAINING = 30
"""Seconds that platforms, engines and the store get after the answers."""

_SHARED_TMP = ("/tmp", "/var/tmp")  # noqa: S108 - only looked at
"""Folders that `PrivateTmp` hides."""

_TEMPLATE = """\
# Written by `hermes service install`, which overwrites it. Your own changes go into
# `systemctl --user edit {unit}`.

[Unit]
Description=Hermes, a messaging gateway for LLM agents
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=notify
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
WorkingDirectory={home}
Environment={environment}
Restart=on-failure
RestartSec=5
RestartPreventExitStatus={bad_configuration}
TimeoutStartSec=600
# systemd restarts Hermes if its event loop is blocked for a minute.
WatchdogSec={watchdog_seconds}
TimeoutStopSec={stop_seconds}
# The signal stops only Hermes; commands of the agent end with their turn.
KillMode=mixed

# Hermes may write only to its state directory and {its_tmp}.
ProtectSystem=strict
ReadWritePaths={writable}
{private_tmp}
UMask=0077

# Limits protect the machine. If a command of the agent runs out of memory, only that command is killed.
MemoryMax=4G
TasksMax=1024
LimitNOFILE=65536
OOMPolicy=continue

# Child processes get no additional privileges.
NoNewPrivileges=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
# @mount and sethostname are for bubblewrap, the sandbox of the terminal.
SystemCallFilter=@system-service @mount sethostname
SystemCallErrorNumber=EPERM

[Install]
WantedBy=default.target
"""


def unit_text(loaded: LoadedConfig) -> str:
    """Return the unit for this Python, this state directory and this configuration."""
    # Without -P, Python would import packages from the state directory.
    command = [sys.executable, "-P", "-m", "gateway.cli"]
    command += ["--config", str(loaded.path)] if loaded.path else []
    folders = dict.fromkeys((loaded.home, loaded.database.parent))
    # Not resolved: both a link and its target must exist.
    needed = (*folders, loaded.path, Path(sys.executable), Path(sys.prefix), Path(__file__))
    below_tmp = next((path for path in needed if path and _is_below_tmp(path)), None)
    return _TEMPLATE.format(
        its_tmp=_SHARED_TMP[0] if below_tmp else "a private /tmp",
        private_tmp=f"# No PrivateTmp: it would hide {_commented(below_tmp)}"
        if below_tmp
        else "PrivateTmp=yes",
        unit=UNIT,
        command=" ".join(_in_quotes(word).replace("$", "$$") for word in (*command, "run")),
        home=_literal(loaded.home),
        environment=_in_quotes(f"HERMES_HOME={loaded.home}"),
        writable=" ".join(
            _in_quotes(str(each)) for each in (*folders, *_SHARED_TMP[: below_tmp is not None])
        ),
        bad_configuration=_BAD_CONFIGURATION,
        watchdog_seconds=_WATCHDOG_SECONDS,
        stop_seconds=ceil(loaded.config.gateway.drain_seconds) + _BEYOND_DRAINING,
    )


def configuration_in(unit: str) -> Path | None:
    """Return the configuration file that a unit names; None if it uses the defaults."""
    found = re.search(r'"--config" "((?:[^"\\]|\\.)*)"', unit)
    if found is None:
        return None
    plain = found[1].replace("$$", "$").replace("%%", "%")
    return Path(re.sub(r"\\(.)", lambda escaped: "\n" if escaped[1] == "n" else escaped[1], plain))


def _is_below_tmp(path: Path) -> bool:
    spellings = (path.absolute(), path.resolve())
    return any(each.is_relative_to(folder) for each in spellings for folder in _SHARED_TMP)


def _commented(path: Path) -> str:
    """Return the path as one comment line without a continuation."""
    return " ".join(str(path).split()).replace("\\", "/")


def _literal(path: Path) -> str:
    return str(path).replace("%", "%%")


def _in_quotes(text: str) -> str:
    """Quote text as one word of a unit file."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    return f'"{plain}"'
