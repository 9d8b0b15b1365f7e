"""From `hermes.yaml` to a model that can be asked."""

from __future__ import annotations

from agent.llm import LLMClient
from gateway.config.load import provider_keys
from gateway.config.schema import ModelChoice, ModelConfig
from gateway.models.choose import Decision, ModelSpec, build_llm, explain_choice


def configured_llm(model: ModelConfig) -> tuple[Decision, LLMClient]:
    """The chosen model with its fallbacks. Reads the table of models from disk, so not on the event loop."""
    keys = provider_keys()
    choice = explain_choice(model.name, base_url=model.base_url, keys=keys)
    fallbacks = [_spec(fallback) for fallback in model.fallbacks]
    return choice, build_llm(_spec(model), keys=keys, fallbacks=fallbacks, max_tokens=model.max_tokens)


def _spec(model: ModelConfig | ModelChoice) -> ModelSpec:
    key = model.api_key.get_secret_value() if model.api_key else None
    return ModelSpec(model.name, model.base_url, key, model.context_length)
