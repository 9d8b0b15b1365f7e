"""Models for side tasks: the one for summaries, as `auxiliary.compression` says."""

from __future__ import annotations

from agent.auxiliary_client import Resolver
from agent.llm import LLMClient
from gateway.config.load import provider_keys
from gateway.config.schema import AuxiliaryModelConfig
from gateway.models.choose import ModelSpec, build_llm

_SAME_MODEL = ("auto", "main")


def auxiliary_llm(config: AuxiliaryModelConfig, main: LLMClient) -> LLMClient:
    """The main model where nothing else is configured. Reads the table of models, so not on the event loop."""
    if config.model is None and config.base_url is None and config.provider in _SAME_MODEL:
        return main
    name = config.model or main.model
    if config.provider not in _SAME_MODEL and not name.startswith(f"{config.provider}/"):
        name = f"{config.provider}/{name}"
    return build_llm(ModelSpec(name, config.base_url), keys=provider_keys())


def resolver(main: LLMClient, auxiliary: LLMClient) -> Resolver:
    """Whoever asks for `main` gets the model that answers people; everybody else the one for side tasks."""
    return lambda task, model: main if model == "main" else auxiliary
