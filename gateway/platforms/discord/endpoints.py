"""Where discord.py finds Discord. It keeps the addresses once for the whole process, so its bots share them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from discord.gateway import DiscordWebSocket
from discord.http import Route
from yarl import URL

from gateway.chat.errors import ConnectionRefused

_in_use: list[tuple[str, str]] = []


@contextmanager
def discord_at(api_base: str, gateway_url: str) -> Iterator[None]:
    """Holds the addresses for as long as a connection lasts. Raises ConnectionRefused if a bot holds others."""
    wanted = (api_base.rstrip("/"), gateway_url)
    if _in_use and _in_use[0] != wanted:
        raise ConnectionRefused(
            "another Discord bot of this process uses other addresses; give all of them the same `api_base` and "
            "`gateway_url`, or run them in two processes."
        )
    _in_use.append(wanted)
    Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY = wanted[0], URL(wanted[1])
    try:
        yield
    finally:
        _in_use.remove(wanted)
