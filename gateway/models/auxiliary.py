"""Models for side tasks: the one for summaries, as `auxiliary.compression` says."""

from __future__ import annotations

from dataclasses import replace

from agent.auxiliary_client import Resolver
from agent.errors import ModelNotAvailable
from agent.llm import LLMClient
from gateway.config.load import provider_keys
from gateway.config.schema import AuxiliaryModelConfig, ModelConfig
from gateway.models.catalog import provider_of
from gateway.models.choose import ModelSpec, beside, build_llm, full_specs
from gateway.models.configured import configured_specs

_SAME_MODEL = ("auto", "main")
_SERVE_THEIR_OWN = ("anthropic", "openai", "embedded")
"""Providers that have no models of others."""

# All of these read the table of models from disk, so none is for the event loop.


def auxiliary_llm(config: AuxiliaryModelConfig, model: ModelConfig, main: LLMClient) -> LLMClient:
    """The main model where nothing else is configured. Raises ModelNotAvailable."""
    spec = auxiliary_spec(config, model)
    return main if spec is None else build_llm(spec, keys=provider_keys())


def auxiliary_spec(config: AuxiliaryModelConfig, model: ModelConfig) -> ModelSpec | None:
    """The model that writes summaries, and where it is asked; None: the main one. Raises ModelNotAvailable.

    With `main` it is asked where the main model is, with `auto` also if it is of the same provider: what people tell a
    server of one's own does not leave it.
    """
    keys = provider_keys()
    if config.model is None and config.base_url is None and config.provider in _SAME_MODEL:
        return None
    main = configured_specs(model)[0]
    name = config.model or main.name
    if config.provider not in _SAME_MODEL and not name.startswith(f"{config.provider}/"):
        name = f"{config.provider}/{name}"
    if config.base_url is not None:
        key = main.api_key if config.base_url == main.base_url else None
        return full_specs(ModelSpec(name, config.base_url, key), (), keys)[0]
    if config.provider == "main":
        return replace(main, name=_at_the_main_address(name, main), context_length=None, vision=None)
    if config.provider == "auto" or main.base_url is None:
        return beside(main, ModelSpec(name), keys)
    return full_specs(ModelSpec(name), (), keys)[0]


def _at_the_main_address(name: str, main: ModelSpec) -> str:
    """The name with the main provider in front: its server is asked, whatever the name looks like."""
    provider = main.name.partition("/")[0]
    if name.startswith(f"{provider}/"):
        return name
    owner = provider_of(name)
    if main.base_url is None and provider in _SERVE_THEIR_OWN and owner not in (None, provider):
        raise ModelNotAvailable(
            f"`provider: main` is {provider} here, and `{name}` belongs to {owner}; "
            f"set `auxiliary.compression.provider: {owner}`."
        )
    return f"{provider}/{name}"


def resolver(main: LLMClient, auxiliary: LLMClient) -> Resolver:
    """Gives the model that answers people to those who ask for `main`, and the one for side tasks to all others."""
    return lambda task, model: main if model == "main" else auxiliary
