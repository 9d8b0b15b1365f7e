"""The gateway that runs on this machine, and how to ask it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.errors import HermesError

if TYPE_CHECKING:
    from gateway.config.loader import LoadedConfig

_PATIENCE = 5.0
"""Seconds. A gateway on this machine answers at once, or something is wrong with it."""
_UNAUTHORISED = 401


class TokenRefused(HermesError):
    """The running Hermes does not take this `platforms.web.token`: hermes.yaml has changed since. Restart Hermes."""


def address(loaded: LoadedConfig) -> str | None:
    """Where the gateway of this state directory listens, by its own word or else by the configuration. None where it
    cannot be asked: it has no page, or did not say which port it got."""
    from gateway.config.schema_platforms import local_url  # noqa: PLC0415
    from gateway.process_lock import read_address  # noqa: PLC0415

    if noted := read_address(loaded.home):
        return noted
    web = loaded.config.platforms.web
    return local_url(web.host, web.port) if web.enabled and web.port != 0 else None


async def ask_status(loaded: LoadedConfig, url: str) -> dict[str, Any] | None:
    """What the gateway of this state directory says about itself; None where none answers. Raises TokenRefused."""
    import aiohttp  # noqa: PLC0415 - slow to import, and needed only here

    web = loaded.config.platforms.web
    headers = {"Authorization": f"Bearer {web.token.get_secret_value()}"} if web.token else {}
    timeout = aiohttp.ClientTimeout(total=_PATIENCE)
    try:
        async with (
            aiohttp.ClientSession(headers=headers, timeout=timeout) as http,
            http.get(f"{url}/api/status") as response,
        ):
            if response.status == _UNAUTHORISED:
                raise TokenRefused
            told = await response.json() if response.status == 200 else None
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None
    is_ours = isinstance(told, dict) and told.get("database") == str(loaded.database)
    return told if is_ours else None
