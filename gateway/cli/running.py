"""The gateway that runs on this machine, and how to ask it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway.config.load import Loaded
    from gateway.config.platforms import WebConfig

_PATIENCE = 5.0
"""Seconds. A gateway on this machine answers at once, or something is wrong with it."""


def can_be_asked(web: WebConfig) -> bool:
    """With port 0 nobody but the gateway knows which one it got."""
    return web.enabled and web.port != 0


async def ask_status(loaded: Loaded) -> dict[str, Any] | None:
    """What the gateway of this state directory says about itself; None where none answers."""
    import aiohttp  # noqa: PLC0415 - slow to import, and needed only here

    from gateway.config.platforms import url_of  # noqa: PLC0415

    web = loaded.config.platforms.web
    headers = {"Authorization": f"Bearer {web.token.get_secret_value()}"} if web.token else {}
    timeout = aiohttp.ClientTimeout(total=_PATIENCE)
    try:
        async with (
            aiohttp.ClientSession(headers=headers, timeout=timeout) as http,
            http.get(f"{url_of(web.host, web.port)}/api/status") as response,
        ):
            told = await response.json() if response.status == 200 else None
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None
    is_ours = isinstance(told, dict) and told.get("database") == str(loaded.database)
    return told if is_ours else None
