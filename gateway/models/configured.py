"""From `hermes.yaml` to a model that can be asked."""

from __future__ import annotations

from agent.llm import LLMClient
from gateway.config.load import provider_keys
from gateway.config.schema import ModelChoice, ModelConfig
from gateway.models.catalog import context_length_for
from gateway.models.choose import Decision, ModelSpec, build_llm, build_named, explain_choice, full_specs

# All of these read the table of models from disk, so none is for the event loop.


def configured_llm(model: ModelConfig) -> tuple[Decision, LLMClient]:
    """The chosen model with its fallbacks."""
    keys = provider_keys()
    choice = explain_choice(model.name, base_url=model.base_url, keys=keys)
    fallbacks = [_spec(fallback) for fallback in model.fallbacks]
    return choice, build_llm(_spec(model), keys=keys, fallbacks=fallbacks, max_tokens=model.max_tokens)


def configured_names(model: ModelConfig) -> list[str]:
    """The full ids of the model and its fallbacks."""
    return list(dict.fromkeys(spec.name for spec in configured_specs(model)))


def configured_models(model: ModelConfig) -> list[tuple[str, str | None]]:
    """The full ids of the model and its fallbacks, and where each is served if not at its provider."""
    return [(spec.name, spec.base_url) for spec in configured_specs(model)]


def configured_windows(model: ModelConfig) -> dict[str, int]:
    """By full id: how many tokens the model and its fallbacks are believed to hold."""
    return {spec.name: context_length_for(spec.name, spec.context_length) for spec in configured_specs(model)}


def named_llm(model: ModelConfig, name: str) -> LLMClient:
    """Any model by its id, without fallbacks: a configured one as configured, another with its provider's key."""
    return build_named(name, configured_specs(model), keys=provider_keys(), max_tokens=model.max_tokens)


def configured_specs(model: ModelConfig) -> list[ModelSpec]:
    """The model and its fallbacks as they are asked."""
    fallbacks = [_spec(fallback) for fallback in model.fallbacks]
    return full_specs(_spec(model), fallbacks, provider_keys())


def _spec(model: ModelConfig | ModelChoice) -> ModelSpec:
    key = model.api_key.get_secret_value() if model.api_key else None
    vision = model.vision if isinstance(model, ModelConfig) else None
    return ModelSpec(model.name, model.base_url, key, model.context_length, vision)
