"""Tells the service manager how things stand, as systemd's `Type=notify` expects. To nobody else."""

from __future__ import annotations

import socket
from contextlib import suppress
from functools import cache

from gateway.config.environment import notify_socket


def tell_manager(state: str) -> None:
    """`READY=1`, `WATCHDOG=1` or `STOPPING=1`. A manager that does not listen is no reason to stop working."""
    address = notify_socket()
    if not address:
        return
    with suppress(OSError):
        # A leading @ stands for a name that is in no directory.
        _socket().sendto(state.encode(), f"\0{address[1:]}" if address.startswith("@") else address)


@cache
def _socket() -> socket.socket:
    """Kept from the first call on: a process without a free descriptor still has to give its signs of life."""
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    manager.setblocking(False)
    return manager
