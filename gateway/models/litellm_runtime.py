"""Loads litellm on first use, configures it once, and closes its connections."""

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
"""They log request URLs, which contain the key for some providers, and advice for litellm's proxy."""


@dataclass(frozen=True, slots=True)
class Library:
    """The parts of litellm that Hermes uses."""

    litellm: Any
    errors: tuple[type[Exception], ...]
    """All errors that a call may raise. litellm's errors are subclasses of the OpenAI SDK's."""
    close_clients: Callable[[], Awaitable[None]]
    blocking_client: type[Any]
    internal_call: ContextVar[bool]
    """True: litellm does not record the call. Its recording task would outlive the client."""


_CALLS = r"acompletion\w*|async_completion|async_streaming|transform_then_dispatch"
DROPPED_COROUTINE = rf"coroutine '[\w.<>]*\b({_CALLS})' was never awaited"
"""When a call is cancelled while litellm prepares it in a thread, litellm drops the coroutine that the thread makes.
The coroutine has not begun, so nothing is lost; without a filter the warning would appear on the person's screen."""

_loaded: Library | None = None


async def load_litellm() -> Library:
    """Import litellm on first use, in a worker thread, because the import takes seconds."""
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
    # The SDK loads hundreds of resource modules at the first request; here that does not block the event loop.
    import_module("openai.resources")
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    # When a stream breaks, litellm would count tokens on the event loop for seconds.
    litellm.disable_token_counter = True
    for name in _CHATTY_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    asyncio.run(_warm_up(litellm))
    # Reads the certificates, which litellm keeps for every later connection.
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


async def _warm_up(litellm: Any) -> None:
    """Make a call without network, which builds what the first real call would build on the event loop."""
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
    """Close every connection that litellm keeps open. Later calls open new ones."""
    if _loaded is None:
        return
    await _loaded.close_clients()
    cache = _loaded.litellm.in_memory_llm_clients_cache
    # litellm does not close the blocking client that transcription uses.
    for client in list(cache.cache_dict.values()):
        if isinstance(client, _loaded.blocking_client):
            await asyncio.to_thread(client.close)
    # Remove the closed clients from the cache. The shared client below is not in the cache and reopens itself.
    cache.flush_cache()
    shared = vars(_loaded.litellm).get("module_level_aclient")
    if shared is not None:
        await shared.close()
