"""Selects the models: the configured one, else one by the keys that are set, else the embedded one.

The first selection reads litellm's table from disk: on an event loop, call it with `asyncio.to_thread`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from agent.auxiliary_client import Resolver
from agent.errors import ModelNotAvailable
from agent.llm import LLMClient
from agent.llm.retry import RetryingLLM
from gateway.config.environment import PROVIDER_KEYS, provider_keys
from gateway.config.schema import AuxiliaryModelConfig, ModelChoice, ModelConfig
from gateway.config.schema_platforms import is_loopback
from gateway.models import embedded
from gateway.models.catalog import context_length_for, lookup, provider_of
from gateway.models.embedded import EmbeddedLLM
from gateway.models.litellm_client import LiteLLMClient, endpoint_of

AUTO = "auto"

DEFAULT_MODELS = {
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-5",
    # Accepts tools on the chat route; its successors need settings of another route.
    "OPENAI_API_KEY": "openai/gpt-5.4",
    "OPENROUTER_API_KEY": "openrouter/anthropic/claude-sonnet-5",
}
"""The models for `auto`: the first key that is set decides."""

_OLLAMA_URL = "http://127.0.0.1:11434"
NOUS_URL = "https://inference-api.nousresearch.com/v1"
"""OpenAI-compatible; litellm does not know the provider."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model as configured."""

    name: str = AUTO
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    context_length: int | None = None
    vision: bool | None = None
    """Whether the model accepts images; None: the value in litellm's table."""


@dataclass(frozen=True, slots=True)
class ModelDecision:
    model: str
    """The full id."""
    why: str
    """A sentence for the start-up banner."""


def explain_choice(name: str, *, base_url: str | None, keys: Mapping[str, str]) -> ModelDecision:
    """Return the model and the reason. `keys` has environment variables by name, such as OPENAI_API_KEY."""
    if name == AUTO:
        return _choose_automatically(base_url, keys)
    model = _full_id(name, base_url)
    if base_url is None:
        return ModelDecision(model, f"Using {model}, as `model.name` says.")
    return ModelDecision(model, f"Using {model} at {urlsplit(base_url).netloc}, as `model.base_url` says.")


def build_llm(
    main: ModelSpec,
    *,
    keys: Mapping[str, str],
    fallbacks: Sequence[ModelSpec] = (),
    max_tokens: int | None = None,
) -> RetryingLLM:
    """Build the client of the chosen model and its fallbacks."""
    return RetryingLLM([_client(spec, keys, max_tokens) for spec in resolve_specs(main, fallbacks, keys)])


def resolve_specs(
    main: ModelSpec, fallbacks: Sequence[ModelSpec], keys: Mapping[str, str]
) -> list[ModelSpec]:
    """Return the specs with full ids. Fallbacks get the address and the key that they share with the main model."""
    if main.name == AUTO and main.api_key:
        raise ModelNotAvailable("`model.api_key` is set: say in `model.name` which model it is for.")
    main = replace(main, name=explain_choice(main.name, base_url=main.base_url, keys=keys).model)
    return [main, *(as_fallback(main, spec, keys) for spec in fallbacks)]


def _choose_automatically(base_url: str | None, keys: Mapping[str, str]) -> ModelDecision:
    if base_url is not None:
        raise ModelNotAvailable("`model.base_url` is set: say in `model.name` which model to ask for there.")
    for variable, model in DEFAULT_MODELS.items():
        if keys.get(variable):
            return ModelDecision(model, f"Using {model}, because {variable} is set.")
    return ModelDecision(embedded.MODEL_ID, f"Using {embedded.MODEL_ID}, because no provider's key is set.")


def _full_id(name: str, base_url: str | None) -> str:
    """Return the id with its provider. A server at a `base_url` is assumed to be OpenAI-compatible."""
    provider = provider_of(name)
    if provider == "embedded" and name != embedded.MODEL_ID:
        raise ModelNotAvailable(f"`{name}` does not exist: the one embedded model is `{embedded.MODEL_ID}`.")
    if provider is not None and name.startswith(f"{provider}/"):
        return name
    if base_url is not None:
        return f"openai/{name}"
    if provider is not None:
        return f"{provider}/{name}"
    if "/" in name:
        # litellm knows providers that are missing in its own list.
        return name
    raise ModelNotAvailable(
        f"No provider is known for `{name}`: write it as `provider/{name}`, or set `model.base_url`."
    )


def as_fallback(main: ModelSpec, spec: ModelSpec, keys: Mapping[str, str]) -> ModelSpec:
    """Return the spec of a fallback. A model of the main model's provider shares its address and key."""
    name = explain_choice(spec.name, base_url=spec.base_url or main.base_url, keys=keys).model
    if spec.base_url is None and provider_of(name) == provider_of(main.name):
        return replace(spec, name=name, base_url=main.base_url, api_key=spec.api_key or main.api_key)
    return replace(spec, name=name)


def _client(spec: ModelSpec, keys: Mapping[str, str], max_tokens: int | None) -> LLMClient:
    if spec.name == embedded.MODEL_ID:
        window = spec.context_length or embedded.WINDOW
        return EmbeddedLLM(window, max_tokens or embedded.MAX_TOKENS)
    # The provider's key is only for the provider: another address gets only the key configured for it.
    api_key = spec.api_key or (None if spec.base_url else keys.get(_key_variable(spec.name)))
    litellm_model, base_url = _route(spec)
    facts = lookup(spec.name)
    return LiteLLMClient(
        spec.name,
        context_length=context_length_for(spec.name, spec.context_length),
        # Unknown models are mostly new models, which use tools.
        supports_tools=facts.supports_tools if facts else True,
        sees_images=spec.vision if spec.vision is not None else facts is None or facts.supports_vision,
        api_key=api_key,
        missing_key=missing_key(spec, keys),
        base_url=base_url,
        max_tokens=max_tokens,
        is_free=is_local(base_url),
        litellm_model=litellm_model,
    )


def _route(spec: ModelSpec) -> tuple[str, str | None]:
    """Return litellm's name for the model and the address that serves it; None for the provider's own."""
    provider, _, name = spec.name.partition("/")
    if provider in ("ollama", "ollama_chat"):
        # The OpenAI route of Ollama reports tool calls and usage in streams.
        url = spec.base_url or _OLLAMA_URL
        return f"openai/{name}", url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/v1"
    if provider == "nous":
        return f"openai/{name}", spec.base_url or NOUS_URL
    return spec.name, spec.base_url


def missing_key(spec: ModelSpec, keys: Mapping[str, str]) -> str:
    """Return the variable that must be set before the model can be called; empty if none is known to be missing."""
    variable = _key_variable(spec.name)
    needed = variable in PROVIDER_KEYS and not (spec.base_url or spec.api_key or keys.get(variable))
    return variable if needed else ""


def is_local(base_url: str | None) -> bool:
    """Tell whether the server is on this machine. Its answers are free, unless it reports a cost."""
    return base_url is not None and is_loopback(urlsplit(base_url).hostname or "")


def _key_variable(model: str) -> str:
    return f"{model.partition('/')[0].upper()}_API_KEY"


# These functions read the table of models from disk: do not call them on the event loop.


def configured_llm(model: ModelConfig) -> tuple[ModelDecision, RetryingLLM]:
    """Return the chosen model and its client with fallbacks."""
    keys, fallbacks = provider_keys(), [_spec(fallback) for fallback in model.fallbacks]
    choice = explain_choice(model.name, base_url=model.base_url, keys=keys)
    return choice, build_llm(_spec(model), keys=keys, fallbacks=fallbacks, max_tokens=model.max_tokens)


def configured_names(model: ModelConfig) -> list[str]:
    """Return the full ids of the model and its fallbacks."""
    return list(dict.fromkeys(spec.name for spec in configured_specs(model)))


def believed_window(spec: ModelSpec) -> tuple[str, str, int]:
    """Return the model's id, its endpoint and the window it is believed to have, in tokens."""
    endpoint = endpoint_of(_route(spec)[1])
    return spec.name, endpoint, context_length_for(spec.name, spec.context_length)


def named_llm(model: ModelConfig, name: str) -> RetryingLLM:
    """Build the client of any model by its id, without fallbacks. An unconfigured model uses its provider's key."""
    keys, specs = provider_keys(), configured_specs(model)
    wanted = as_fallback(specs[0], ModelSpec(name), keys)
    spec = next((spec for spec in specs if spec.name == wanted.name), wanted)
    if variable := missing_key(spec, keys):
        raise ModelNotAvailable(f"{variable} is not set.")
    return RetryingLLM([_client(spec, keys, model.max_tokens)])


def configured_specs(model: ModelConfig) -> list[ModelSpec]:
    """Return the resolved specs of the model and its fallbacks."""
    fallbacks = [_spec(fallback) for fallback in model.fallbacks]
    return resolve_specs(_spec(model), fallbacks, provider_keys())


def _spec(model: ModelConfig | ModelChoice) -> ModelSpec:
    key = model.api_key.get_secret_value() if model.api_key else None
    vision = model.vision if isinstance(model, ModelConfig) else None
    return ModelSpec(model.name, model.base_url, key, model.context_length, vision)


_SAME_MODEL = ("auto", "main")
_OWN_MODELS_ONLY = ("anthropic", "openai", "embedded")
"""Providers that serve only their own models."""


def auxiliary_llm(config: AuxiliaryModelConfig, model: ModelConfig, main: RetryingLLM) -> RetryingLLM:
    """Return the client for summaries; the main client if nothing else is configured. Raises ModelNotAvailable."""
    spec = auxiliary_spec(config, model)
    return main if spec is None else build_llm(spec, keys=provider_keys())


def auxiliary_spec(config: AuxiliaryModelConfig, model: ModelConfig) -> ModelSpec | None:
    """Return the model that writes summaries; None: the main model. Raises ModelNotAvailable.

    With `main`, and with `auto` for a model of the same provider, the main model's server is used: conversations with
    the owner's own server do not leave it.
    """
    if config.model is None and config.base_url is None and config.provider in _SAME_MODEL:
        return None
    keys, main = provider_keys(), configured_specs(model)[0]
    name = config.model or main.name
    if config.provider not in _SAME_MODEL and not name.startswith(f"{config.provider}/"):
        name = f"{config.provider}/{name}"
    if config.base_url is not None:
        key = main.api_key if config.base_url == main.base_url else None
        return resolve_specs(ModelSpec(name, config.base_url, key), (), keys)[0]
    if config.provider == "main":
        return replace(main, name=_with_main_provider(name, main), context_length=None, vision=None)
    if config.provider == "auto" or main.base_url is None:
        return as_fallback(main, ModelSpec(name), keys)
    return resolve_specs(ModelSpec(name), (), keys)[0]


def _with_main_provider(name: str, main: ModelSpec) -> str:
    """Return the name with the main provider in front, because its server is used for any name."""
    provider = main.name.partition("/")[0]
    if name.startswith(f"{provider}/"):
        return name
    owner = provider_of(name)
    if main.base_url is None and provider in _OWN_MODELS_ONLY and owner not in (None, provider):
        raise ModelNotAvailable(
            f"`provider: main` is {provider} here, and `{name}` belongs to {owner}; "
            f"set `auxiliary.compression.provider: {owner}`."
        )
    return f"{provider}/{name}"


def auxiliary_resolver(main: LLMClient, auxiliary: LLMClient) -> Resolver:
    """Return a resolver: `main` is the model that answers messages, any other name the auxiliary model."""
    return lambda task, model: main if model == "main" else auxiliary
