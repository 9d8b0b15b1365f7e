"""Addresses of Discord, which discord.py keeps once per process, so that all its bots share them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from discord.gateway import DiscordWebSocket
from discord.http import Route
from yarl import URL

from gateway.chat.errors import ConnectionRefused

_endpoints_in_use: list[tuple[str, str]] = []


@contextmanager
def use_endpoints(api_base: str, gateway_url: str) -> Iterator[None]:
    """Use these addresses for one connection. Raises ConnectionRefused if another bot uses different ones."""
    wanted = (api_base.rstrip("/"), gateway_url)
    if _endpoints_in_use and _endpoints_in_use[0] != wanted:
        raise ConnectionRefused(
            "another Discord bot of this process uses other addresses; give all of them the same `api_base` and "
            "`gateway_url`, or run them in two processes."
        )
    _endpoints_in_use.append(wanted)
    Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY = wanted[0], URL(wanted[1])
    try:
        yield
    finally:
        _endpoints_in_use.remove(wanted)
