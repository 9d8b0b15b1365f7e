"""Finds the gateway that runs on this state directory and asks for its status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.errors import HermesError

if TYPE_CHECKING:
    from gateway.config.loader import LoadedConfig

_TIMEOUT_SECONDS = 5.0


class TokenRefused(HermesError):
    """The running Hermes refuses this `platforms.web.token`: hermes.yaml has changed since. Restart Hermes."""


def gateway_url(loaded: LoadedConfig) -> str | None:
    """Return the address that the gateway wrote, or the configured one; None without a web server or a known port."""
    from gateway.config.schema_platforms import local_url  # noqa: PLC0415
    from gateway.process_lock import read_address  # noqa: PLC0415

    if noted := read_address(loaded.home):
        return noted
    web = loaded.config.platforms.web
    return local_url(web.host, web.port) if web.enabled and web.port != 0 else None


async def ask_status(loaded: LoadedConfig, url: str) -> dict[str, Any] | None:
    """Ask the gateway of this state directory for its status; None if it does not answer. Raises TokenRefused."""
    import aiohttp  # noqa: PLC0415 - slow to import

    web = loaded.config.platforms.web
    headers = {"Authorization": f"Bearer {web.token.get_secret_value()}"} if web.token else {}
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(headers=headers, timeout=timeout) as http,
            http.get(f"{url}/api/status") as response,
        ):
            if response.status == 401:
                raise TokenRefused
            status = await response.json() if response.status == 200 else None
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None
    is_ours = isinstance(status, dict) and status.get("database") == str(loaded.database)
    return status if is_ours else None
