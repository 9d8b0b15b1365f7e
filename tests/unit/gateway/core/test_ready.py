"""Notifications to the service manager."""

from __future__ import annotations

import resource
import socket
from pathlib import Path

import pytest

from gateway.watchdog import sd_notify


def test_a_heartbeat_without_a_free_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A healthy process without a free descriptor still feeds the watchdog and is not killed."""
    address = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    with _manager(address) as manager:
        sd_notify("READY=1")
        assert manager.recv(100) == b"READY=1"
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            sd_notify("WATCHDOG=1")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert manager.recv(100) == b"WATCHDOG=1"


def test_a_restarted_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notifications reach the new socket of a restarted manager; without a socket nothing happens."""
    address = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    with _manager(address) as manager:
        sd_notify("READY=1")
        assert manager.recv(100) == b"READY=1"
    Path(address).unlink()
    sd_notify("WATCHDOG=1")
    with _manager(address) as manager:
        sd_notify("WATCHDOG=1")
        assert manager.recv(100) == b"WATCHDOG=1"


def _manager(address: str) -> socket.socket:
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(address)
    manager.setblocking(False)
    return manager
