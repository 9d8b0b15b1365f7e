"""litellm as a thing that is loaded late, configured once and put away cleanly."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from gateway.config.environment import prepare_litellm_environment

_CHATTY_LOGGERS = ("LiteLLM", "httpx", "openai")
"""Request addresses, which hold the key for some providers, and advice for people who run litellm's proxy."""


@dataclass(frozen=True, slots=True)
class Library:
    """What the client needs of litellm."""

    litellm: Any
    errors: tuple[type[Exception], ...]
    """All that a call may raise: litellm's own errors descend from the OpenAI SDK's."""
    close_clients: Callable[[], Awaitable[None]]
    blocking_client: type[Any]
    internal_call: ContextVar[bool]
    """True: litellm keeps no records of the call. Its own would run in a task that outlives everything."""


_CALLS = r"acompletion\w*|async_completion|async_streaming|transform_then_dispatch"
DROPPED_COROUTINE = rf"coroutine '[\w.<>]*\b({_CALLS})' was never awaited"
"""When a call is cancelled while litellm prepares it in a thread, litellm drops the coroutine that the thread makes.
The coroutine has not begun, so nothing is lost; without a filter the warning would appear on the person's screen."""

_loaded: Library | None = None


async def load_litellm() -> Library:
    """Imports it on first use, in a worker thread: that takes seconds and the event loop must go on."""
    global _loaded
    if _loaded is None:
        _loaded = await asyncio.to_thread(_load)
    return _loaded


def litellm_providers() -> set[str]:
    """Return the names of all providers that litellm can call. Imports litellm."""
    prepare_litellm_environment()
    return {str(getattr(each, "value", each)) for each in import_module("litellm").provider_list}


def _load() -> Library:
    prepare_litellm_environment()
    litellm: Any = import_module("litellm")
    warnings.filterwarnings("ignore", DROPPED_COROUTINE, RuntimeWarning)
    # The SDK loads its hundreds of resource modules at the first request; here that stalls nobody.
    import_module("openai.resources")
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    # It would count tokens on the event loop when a stream breaks: seconds, for figures nobody asked for.
    litellm.disable_token_counter = True
    for name in _CHATTY_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    asyncio.run(_warm_up(litellm))
    # Reads the certificates; litellm keeps them for every connection to come.
    import_module("litellm.llms.custom_httpx.http_handler").get_ssl_configuration()
    openai, httpx, aiohttp = (import_module(name) for name in ("openai", "httpx", "aiohttp"))
    cleanup = import_module("litellm.llms.custom_httpx.async_client_cleanup")
    return Library(
        litellm,
        (openai.OpenAIError, httpx.HTTPError, aiohttp.ClientError, ConnectionError, TimeoutError),
        cleanup.close_litellm_async_clients,
        openai.OpenAI,
        import_module("litellm._internal_context").is_internal_call,
    )


def _close_blocking_clients(library: Library) -> None:
    """Transcription uses one, and litellm forgets it."""
    for client in list(library.litellm.in_memory_llm_clients_cache.cache_dict.values()):
        if isinstance(client, library.blocking_client):
            client.close()


async def _warm_up(litellm: Any) -> None:
    """A call without a network: it builds what the first real call would build on the event loop."""
    stream = await litellm.acompletion(
        model="openai/gpt-4o-mini",
        messages=[{"role": "user", "content": "Hi"}],
        mock_response="Hi",
        api_key="none",
        stream=True,
        stream_options={"include_usage": True},
    )
    async for chunk in stream:
        if getattr(chunk, "usage", None) is not None:
            break
    await stream.aclose()


async def close_connections() -> None:
    """Closes every connection litellm keeps open. Calls after this open new ones."""
    if _loaded is None:
        return
    await _loaded.close_clients()
    await asyncio.to_thread(_close_blocking_clients, _loaded)
    # Closed clients must not be found again. The shared one below is not in the cache and opens itself anew.
    _loaded.litellm.in_memory_llm_clients_cache.flush_cache()
    shared = vars(_loaded.litellm).get("module_level_aclient")
    if shared is not None:
        await shared.close()
