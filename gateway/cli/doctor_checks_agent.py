"""Checks of `hermes doctor` for tools, sandbox, plugins, models and the budget."""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import tempfile
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from agent.errors import HermesError, ModelError, ModelNotAvailable, SandboxNotAvailable
from agent.llm import ChatRequest, Retrying
from agent.tool import discover
from agent.toolbox import choose_tools
from agent.tools.terminal import terminal
from gateway.app import build_sandbox
from gateway.config.environment import provider_keys
from gateway.config.loader import LoadedConfig
from gateway.config.schema import Config, ModelConfig
from gateway.errors import EngineBroken, UnknownEngine
from gateway.limits import format_usd
from gateway.models import embedded
from gateway.models.catalog import has_price, provider_problem
from gateway.models.litellm_runtime import load_litellm
from gateway.models.selection import (
    auxiliary_spec,
    configured_llm,
    configured_specs,
    explain_choice,
    is_local,
    missing_key,
)
from gateway.platforms.base import Finding
from gateway.plugins.engines import check_engine, engine_problem, fallback_sentence, hidden_engines
from gateway.plugins.loader import survey_plugins

_SECONDS_TO_ANSWER = 20


def tools(loaded: LoadedConfig) -> Iterator[Finding]:
    chosen = loaded.config.tools
    try:
        plugins, _ = survey_plugins(loaded.home, loaded.config.plugins.enabled)
        available = discover() | plugins.tools
        names = [tool.name for tool in choose_tools(available, chosen.enabled, chosen.platforms, "")]
    except HermesError as error:
        yield Finding("fail", str(error))
    else:
        yield Finding("ok", f"tools: {', '.join(names) or 'none'}")


def sandbox(loaded: LoadedConfig) -> Iterator[Finding]:
    """Check the sandbox, if the `terminal` tool is enabled."""
    tools = loaded.config.tools
    if not any(terminal.name in names for names in (tools.enabled, *tools.platforms.values())):
        return
    chosen = build_sandbox(loaded)
    if chosen is None:
        yield Finding(
            "warn",
            "tools.sandbox.mode is off: a terminal command may do everything that Hermes may, with its keys "
            "and its database; set it to bubblewrap",
        )
        return
    try:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(chosen.try_out(Path(folder)))
    except SandboxNotAvailable as error:
        yield Finding("fail", f"the sandbox of the terminal does not work: {error.detail}")
        return
    network = "a" if chosen.network else "no"
    yield Finding("ok", f"the sandbox of the terminal works; it has {network} network")
    web = loaded.config.platforms.web
    if chosen.network and web.enabled and not web.token:
        yield Finding(
            "warn",
            "tools.sandbox.network lets commands reach the chat page of this Hermes; set platforms.web.token",
        )


def plugins(loaded: LoadedConfig) -> Iterator[Finding]:
    """Check the enabled plugins and the context engine by running their code."""
    config, home = loaded.config, loaded.home
    enabled, every = survey_plugins(home, config.plugins.enabled)
    for plugin in every:
        if plugin.enabled and plugin.problem:
            yield Finding("fail", f"the plugin {plugin.name} cannot be loaded: {plugin.problem}")
    try:
        check_engine(config.context.engine, loaded, enabled)
    except (UnknownEngine, EngineBroken) as error:
        yield Finding("fail", fallback_sentence(config.context.engine, error.detail))
    except HermesError as error:
        yield Finding("fail", str(error))
    else:
        yield Finding("ok", f"context engine: {config.context.engine}")
        if problem := engine_problem(
            config.context.engine, home=home, plugins=enabled, options=config.context.options
        ):
            yield Finding("fail", f"context engine {config.context.engine}: {problem}")
    for notice in (*enabled.notices, *hidden_engines(home, enabled)):
        yield Finding("warn", notice)


def keys() -> Iterator[Finding]:
    """Report the names of the keys that are set. Keys are optional: the embedded model needs none."""
    try:
        found = provider_keys()
    except HermesError as error:
        yield Finding("fail", str(error))
    else:
        yield Finding("ok", f"keys: {', '.join(found) or 'no provider has one here'}")


def model(loaded: LoadedConfig, *, offline: bool) -> Iterator[Finding]:
    """Check that the model answers."""
    configured = loaded.config.model
    try:
        known = provider_keys()
        name = explain_choice(configured.name, base_url=configured.base_url, keys=known).model
        if not configured.base_url and (problem := provider_problem(name)):
            yield Finding("fail", f"{name}: {problem}")
            return
        if variable := missing_key(configured_specs(configured)[0], known):
            yield Finding("fail", f"{name} needs a key; set {variable}, or run `hermes setup`")
            return
        yield from _embedded_model(needed=name == embedded.MODEL_ID)
        if offline:
            yield Finding("ok", f"{name} was not called (--offline)")
            return
        ask_model(configured, seconds=_SECONDS_TO_ANSWER)
    except HermesError as error:
        yield Finding("fail", f"{configured.name}: {error}")
    else:
        yield Finding("ok", f"{name} answers")


def auxiliary_model(loaded: LoadedConfig) -> Iterator[Finding]:
    """Check the model that writes summaries, if it is not the main model."""
    try:
        spec = auxiliary_spec(loaded.config.auxiliary.compression, loaded.config.model)
        if spec is None:
            return
        where = f" at {urlsplit(spec.base_url).netloc}" if spec.base_url else ""
        if not spec.base_url and (problem := provider_problem(spec.name)):
            yield Finding("fail", f"auxiliary.compression: {problem}")
        elif variable := missing_key(spec, provider_keys()):
            yield Finding("fail", f"{spec.name} cannot write summaries without a key; set {variable}")
        else:
            yield Finding("ok", f"{spec.name}{where} writes the summaries")
    except HermesError as error:
        yield Finding("fail", f"auxiliary.compression: {error}")


def _embedded_model(*, needed: bool) -> Iterator[Finding]:
    """Check the packages of the embedded model without importing them, which would load 100 MB."""
    level: Literal["fail", "warn"] = "fail" if needed else "warn"
    try:
        embedded.find_weights()
    except ModelNotAvailable as error:
        yield Finding(level, error.detail)
        return
    if importlib.util.find_spec("xllamacpp") is None:
        yield Finding(level, "the embedded model cannot run; `pip install xllamacpp`")
    else:
        yield Finding("ok", "the embedded demonstration model is installed")


def limits(config: Config) -> Iterator[Finding]:
    """Report the daily budget, if one is set."""
    caps = {
        "for each person": config.limits.daily_usd_per_person,
        "for everyone": config.limits.daily_usd_total,
    }
    told = [f"{format_usd(cap)} {whose}" for whose, cap in caps.items() if cap is not None]
    if not told:
        return
    yield Finding("ok", f"daily budget: {' and '.join(told)}, from midnight to midnight, local time")
    try:
        unknown = [model for model, base_url in _models(config) if not _price_is_known(model, base_url)]
    except HermesError:
        return  # reported by the check of the model
    if unknown:
        assumed = f"{format_usd(config.limits.unknown_price)} per million tokens"
        yield Finding(
            "warn",
            f"the price of {', '.join(dict.fromkeys(unknown))} is not known; against the daily budget it counts as "
            f"{assumed} (limits.unknown_price)",
        )


def _models(config: Config) -> Iterator[tuple[str, str | None]]:
    """Yield all models that may cost money, with their `base_url`."""
    yield from ((spec.name, spec.base_url) for spec in configured_specs(config.model))
    if summaries := auxiliary_spec(config.auxiliary.compression, config.model):
        yield summaries.name, summaries.base_url
    voice = config.auxiliary.transcription
    if voice.model:
        yield voice.model, voice.base_url


def _price_is_known(model: str, base_url: str | None) -> bool:
    is_ollama = base_url is None and model.startswith(("ollama/", "ollama_chat/"))
    return is_ollama or is_local(base_url) or has_price(model)


_QUESTION = ChatRequest(
    [{"role": "user", "content": "Say ok."}],
    max_tokens=16,  # some providers refuse to answer in less
    purpose="check",
)


class NoAnswer(ModelError):
    """The model did not answer:"""

    transient = True


def ask_model(model: ModelConfig, *, seconds: float) -> None:
    """Ask the model a tiny question. Raises the ModelError that kept it from answering."""
    _, llm = configured_llm(model.model_copy(update={"fallbacks": (), "max_tokens": None}))

    async def ask() -> None:
        await load_litellm()  # on a busy machine, loading takes longer than the deadline of the model
        try:
            async with asyncio.timeout(seconds), aclosing(llm.stream(_QUESTION)) as events:
                async for event in events:
                    # The person wants to know the first failure, not how retrying goes.
                    if isinstance(event, Retrying):
                        raise NoAnswer(event.reason)
        except TimeoutError:
            raise NoAnswer(f"no answer within {seconds:.0f} seconds.") from None
        finally:
            await llm.close()

    asyncio.run(ask())
