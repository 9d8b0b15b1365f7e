"""The systemd user unit of `hermes service install`, with the reasons for its settings.

A user's service manager has no privileges, and Hermes runs bubblewrap in user namespaces. So three kinds of hardening
are left out on purpose:

- what takes capabilities away (`CapabilityBoundingSet`, `ProtectKernelModules`, `ProtectKernelLogs`, `ProtectClock`,
  `PrivateDevices`): where the manager may not do that, the service does not start (218/CAPABILITIES). A user's
  processes do not have them anyway.
- what bubblewrap needs: `RestrictNamespaces`; `ProtectHostname`, because a sandbox has a name of its own;
  `ProtectKernelTunables`, `ProtectProc` and `ProcSubset`, because the kernel lets nobody mount a fresh /proc who sees
  only parts of it.
- `PrivateUsers`: without user namespaces the service would not start. The settings that need a view of the file system
  of their own bring it along by themselves where it is possible, and are passed over where it is not.

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
"""The exit code after which another start would end the same way."""
_WATCHDOG_SECONDS = 60
_BEYOND_DRAINING = 30
"""Seconds that platforms, engines and the store get after the answers."""

_SHARED_TMP = ("/tmp", "/var/tmp")  # noqa: S108 - only looked at
"""What `PrivateTmp` hides."""

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
# An event loop that stands still for a minute is ended and started again.
WatchdogSec={watchdog_seconds}
TimeoutStopSec={stop_seconds}
# Commands of the agent end with their turn, not with the signal.
KillMode=mixed

# It writes into its state directory and {its_tmp}, and nowhere else.
ProtectSystem=strict
ReadWritePaths={writable}
{private_tmp}
UMask=0077

# A fault must not take the whole machine along. A command of the agent that is killed for its memory ends alone.
MemoryMax=4G
TasksMax=1024
LimitNOFILE=65536
OOMPolicy=continue

# Whatever it starts has no more rights than it has itself.
NoNewPrivileges=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
# The last two are for bubblewrap, the sandbox of the terminal.
SystemCallFilter=@system-service @mount sethostname
SystemCallErrorNumber=EPERM

[Install]
WantedBy=default.target
"""


def unit_text(loaded: LoadedConfig) -> str:
    """For this Python, this state directory and this configuration."""
    # Without -P, a folder in the state directory could be taken for a part of Hermes.
    command = [sys.executable, "-P", "-m", "gateway.cli"]
    command += ["--config", str(loaded.path)] if loaded.path else []
    folders = dict.fromkeys((loaded.home, loaded.database.parent))
    # Not resolved: what a link leads to has to be there, and so has the link.
    needed = (*folders, loaded.path, Path(sys.executable), Path(sys.prefix), Path(__file__))
    below_tmp = next((path for path in needed if path and _is_below_tmp(path)), None)
    return _TEMPLATE.format(
        its_tmp=_SHARED_TMP[0] if below_tmp else "a /tmp of its own",
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
    """The file that a unit names; None if it is for the defaults."""
    found = re.search(r'"--config" "((?:[^"\\]|\\.)*)"', unit)
    if found is None:
        return None
    plain = found[1].replace("$$", "$").replace("%%", "%")
    return Path(re.sub(r"\\(.)", lambda escaped: "\n" if escaped[1] == "n" else escaped[1], plain))


def _is_below_tmp(path: Path) -> bool:
    spellings = (path.absolute(), path.resolve())
    return any(each.is_relative_to(folder) for each in spellings for folder in _SHARED_TMP)


def _commented(path: Path) -> str:
    """On one line that goes on to no other."""
    return " ".join(str(path).split()).replace("\\", "/")


def _literal(path: Path) -> str:
    return str(path).replace("%", "%%")


def _in_quotes(text: str) -> str:
    """As one word, whatever is in it."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    return f'"{plain}"'
