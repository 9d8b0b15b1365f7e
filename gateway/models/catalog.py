"""Catalog of models: context windows, tools and prices, from the table that litellm ships.

The table is read as a file, because importing litellm takes seconds. The first look-up reads it in 30 ms.
"""

from __future__ import annotations

import asyncio
import difflib
import importlib.metadata
import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import structlog

from agent.llm import Usage
from agent.llm.selection import ModelSelector
from agent.store import Conversation
from gateway.models import embedded
from gateway.models.litellm_runtime import litellm_providers

log = structlog.get_logger(__name__)

DEFAULT_WINDOW = 32_768
"""Tokens, for unknown models. For a server at `model.base_url`, set `model.context_length`, too."""

OLLAMA_WINDOW = 4_096
"""Tokens. Ollama's window on machines with less than 24 GB of video memory, for any model. Ollama truncates longer
prompts silently, so the guess must not be too large."""

_PRICES = "litellm/model_prices_and_context_window_backup.json"
_PROVIDERS = "litellm/provider_endpoints_support_backup.json"
_RESELLERS = ("openrouter", "nous")
_CHAT_MODES = {"chat", "responses", "completion"}

_VENDORS = {
    "google": "gemini",
    "mistralai": "mistral",
    "moonshotai": "moonshot",
    "x-ai": "xai",
    "z-ai": "zai",
}
"""OpenRouter's names of vendors, and litellm's names."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars per token; None if a provider has no such price."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    provider: str
    context_length: int
    max_output_tokens: int | None
    supports_tools: bool
    prices: Prices | None
    """None if unknown."""
    supports_vision: bool = False


def lookup(model_id: str) -> ModelFacts | None:
    """Return the facts about a model under any of the usual spellings of its id."""
    if model_id == embedded.MODEL_ID:
        return ModelFacts("embedded", embedded.WINDOW, None, supports_tools=False, prices=Prices(0.0, 0.0))
    provider, _, name = model_id.partition("/")
    if provider in _RESELLERS:
        # Window and tools are the vendor's; the price may differ. `anthropic/claude-x-4.5:beta` at OpenRouter is
        # `anthropic/claude-x-4-5`.
        vendor, _, model = name.partition(":")[0].partition("/")
        vendor = _VENDORS.get(vendor, vendor)
        facts = lookup(f"{vendor}/{model}") or lookup(f"{vendor}/{model.replace('.', '-')}")
        return replace(facts, provider=provider, prices=None) if facts else None
    if provider == "ollama_chat":
        return lookup(f"ollama/{name}")
    if known := _table().get(model_id):
        return known
    # The table may list the bare name. At another provider it is another model.
    facts = _table().get(name)
    return facts if facts and facts.provider.startswith(provider) else None


def context_length_for(model_id: str, configured: int | None = None) -> int:
    """Return the context window: as configured, else from the table, else a cautious guess."""
    if configured:
        return configured
    if model_id.startswith(("ollama/", "ollama_chat/")) and not model_id.endswith("-cloud"):
        return OLLAMA_WINDOW
    facts = lookup(model_id)
    return facts.context_length if facts else DEFAULT_WINDOW


def has_price(model_id: str) -> bool:
    """Tell whether a call's cost will be known, from litellm's table or from the provider."""
    if model_id == embedded.MODEL_ID or model_id.startswith("openrouter/"):
        return True
    listed = _read(_PRICES)
    return model_id in listed or model_id.partition("/")[2] in listed


def provider_of(model_id: str) -> str | None:
    """Return the provider that an id names, or that the table lists for a bare name."""
    prefix, slash, _ = model_id.partition("/")
    if not slash:
        facts = _table().get(model_id)
        prefix = facts.provider if facts else ""
    return prefix if prefix in ("embedded", *_RESELLERS) or prefix in _providers() else None


def provider_problem(model_id: str) -> str:
    """Return what is wrong with the provider that an id names; empty if litellm knows it. For a model without a
    `base_url`. Imports litellm, which takes seconds, for a provider that its tables do not list."""
    prefix, slash, name = model_id.partition("/")
    if not slash or not _providers() or prefix in ("embedded", *_RESELLERS) or prefix in _providers():
        return ""
    known = {"embedded", *_RESELLERS, *_providers(), *litellm_providers()}
    if prefix in known:
        return ""
    near = difflib.get_close_matches(prefix, known, n=1)
    remedy = f"Did you mean `{near[0]}/{name}`?" if near else "Correct it, or set `model.base_url`."
    return f"There is no provider `{prefix}`. {remedy}"


@cache
def _table() -> dict[str, ModelFacts]:
    entries = _read(_PRICES).items()
    return {model_id: facts for model_id, entry in entries if (facts := _facts(entry)) is not None}


@cache
def _providers() -> frozenset[str]:
    return frozenset(_read(_PROVIDERS).get("providers", {}))


def _read(name: str) -> dict[str, Any]:
    """Read a table of the installed litellm. Without it Hermes still works, with cautious guesses."""
    try:
        path = importlib.metadata.distribution("litellm").locate_file(name)
        table: dict[str, Any] = json.loads(Path(str(path)).read_text("utf-8"))
    except (importlib.metadata.PackageNotFoundError, FileNotFoundError):
        log.warning("model.catalog_missing", file=name)
        return {}
    return table


def _facts(entry: dict[str, Any]) -> ModelFacts | None:
    """Return the facts of a table entry; None if it is not a chat model or has no known window."""
    window = entry.get("max_input_tokens") or entry.get("max_tokens")
    if entry.get("mode") not in _CHAT_MODES or not isinstance(window, int):
        return None
    return ModelFacts(
        provider=entry["litellm_provider"],
        context_length=window,
        max_output_tokens=entry.get("max_output_tokens"),
        supports_tools=bool(entry.get("supports_function_calling")),
        prices=_prices(entry),
        supports_vision=bool(entry.get("supports_vision")),
    )


def _prices(entry: dict[str, Any]) -> Prices | None:
    price_in, price_out = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    if price_in is None or price_out is None:
        return None
    cached, written = entry.get("cache_read_input_token_cost"), entry.get("cache_creation_input_token_cost")
    return Prices(price_in, price_out, cached, written)


@dataclass(frozen=True, slots=True)
class CacheSavings:
    """Savings through prompt caching, by the prices in the catalog."""

    usd: float = 0.0
    """Negative if writing to the cache cost more than reading from it saved."""
    without: float = 0.0
    """The cost without the cache."""
    unknown_tokens: int = 0
    """Tokens read from the cache at an unknown price."""

    def __add__(self, other: CacheSavings) -> CacheSavings:
        return CacheSavings(
            self.usd + other.usd, self.without + other.without, self.unknown_tokens + other.unknown_tokens
        )

    @property
    def share(self) -> float | None:
        return self.usd / self.without if self.without > 0 else None


def cache_savings(model: str, usage: Usage) -> CacheSavings:
    """Compute the savings for the summed usage of any number of calls. The first look-up reads a file."""
    facts = lookup(model)
    prices = facts.prices if facts else None
    if prices is None or (prices.cache_read is None and usage.cache_read_tokens and prices.input):
        return CacheSavings(unknown_tokens=usage.cache_read_tokens)
    read = prices.input if prices.cache_read is None else prices.cache_read
    written = prices.input if prices.cache_write is None else prices.cache_write
    return CacheSavings(
        usage.cache_read_tokens * (prices.input - read) - usage.cache_write_tokens * (written - prices.input),
        usage.prompt_tokens * prices.input + usage.completion_tokens * prices.output,
    )


@dataclass(frozen=True, slots=True)
class VisionCheck:
    """Tells whether the model of a conversation accepts images. `configured` is `model.vision`."""

    models: ModelSelector
    configured: bool | None

    async def __call__(self, conversation: Conversation) -> bool:
        if self.configured is not None and await self.models.is_default(conversation):
            return self.configured
        llm = await self.models.of(conversation)
        facts = await asyncio.to_thread(lookup, llm.model)
        return facts is not None and facts.supports_vision
