"""HTTP requests that try a bot's token, for `hermes setup` and `hermes doctor`.

Some services carry the token in the address, so no error here holds an address or the text of a library.
"""

from __future__ import annotations

import json
import time
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp

from gateway.platforms.base import BotUnreachable

SECONDS_TO_ANSWER = 15


class ProbeResponse(NamedTuple):
    status: int
    body: dict[str, Any]
    """The JSON object; empty if the body was something else."""
    clock_ahead: float
    """Seconds by which this machine's clock is ahead of the service's; 0 where the service tells no time."""


def probe_session(**options: Any) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS_TO_ANSWER), **options)


async def get_json(http: aiohttp.ClientSession, root: str, path: str) -> ProbeResponse:
    """Send a GET request without following redirects, which would carry the token elsewhere."""
    host = urlsplit(root).netloc
    try:
        async with http.get(f"{root.rstrip('/')}{path}", allow_redirects=False) as response:
            status, body, date = response.status, await response.read(), response.headers.get("Date", "")
    except TimeoutError:
        raise BotUnreachable(f"{host} did not answer within {SECONDS_TO_ANSWER} seconds.") from None
    except (aiohttp.ClientError, OSError):
        raise BotUnreachable(f"{host} cannot be reached; check the network.") from None
    return ProbeResponse(status, _json_object(body), _clock_ahead(date))


def unexpected(root: str, status: int, setting: str) -> BotUnreachable:
    """Describe a response that says nothing about the token."""
    host = urlsplit(root).netloc
    if status == 429 or status >= 500:
        return BotUnreachable(f"{host} is busy or failing (HTTP {status}); try again later.")
    return BotUnreachable(f"{host} gave an unexpected answer (HTTP {status}); check `{setting}`.")


def _clock_ahead(date: str) -> float:
    try:
        return time.time() - parsedate_to_datetime(date).timestamp()
    except ValueError:
        return 0.0


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
