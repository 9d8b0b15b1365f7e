"""Checks of `hermes doctor`. Each check yields findings and raises nothing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import gateway
from agent.errors import HermesError, ModelNotAvailable
from agent.tool import discover
from agent.toolbox import choose_tools
from gateway.cli import ignored_sentence
from gateway.cli.model_probe import ask_model
from gateway.config import loader as configuration_files
from gateway.config.environment import relative_pythonpath
from gateway.config.loader import LoadedConfig, load, provider_keys
from gateway.errors import ConfigError, EngineBroken, UnknownEngine
from gateway.models import embedded
from gateway.models.catalog import provider_problem
from gateway.models.selection import auxiliary_spec, configured_specs, explain_choice, missing_key
from gateway.platforms.base import Finding
from gateway.plugins import (
    check_engine,
    engine_problem,
    fallback_sentence,
    hidden_engines,
    survey_plugins,
)

OLDEST_PYTHON = (3, 11)
SECONDS_TO_ANSWER = 20
_DISTRIBUTION = "hermes-gateway"
_MEGABYTE = 1_000_000
_LEAST_FREE_MB, _TOO_LITTLE_MB = 500, 50
_OTHERS = 0o077
"""The permission bits of group and others."""


def python() -> Finding:
    version = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        return Finding("fail", f"Python {version} is too old; install Python 3.11 or newer")
    return Finding("ok", f"Python {version}")


def packages() -> Iterator[Finding]:
    """Find other distributions with a top-level `agent` or `gateway`, which would replace ours."""
    providers = importlib.metadata.packages_distributions()
    strangers = {name: set(providers.get(name, ())) - {_DISTRIBUTION} for name in ("agent", "gateway")}
    for name, distributions in strangers.items():
        for distribution in sorted(distributions):
            yield Finding(
                "fail", f"{distribution} also installs `{name}`; install Hermes in its own environment"
            )
    if not any(strangers.values()):
        yield Finding("ok", f"Hermes is installed in {Path(gateway.__path__[0]).parent}")
    for entry in relative_pythonpath():
        what = f"the relative entry {entry!r}" if entry else "an empty entry"
        yield Finding(
            "warn", f"PYTHONPATH has {what}: Python runs code from the folder you start Hermes in; remove it"
        )


def state_directory() -> Iterator[Finding]:
    try:
        home = configuration_files.state_directory()
        if not home.exists():
            yield _to_be_made(home)
            return
        configuration_files.ensure_home(home)
        yield from private(home, "chmod 700")
        if (home / ".env").exists():
            yield from private(home / ".env", "chmod 600")
    except (HermesError, OSError) as error:
        yield Finding("fail", str(error))


def _to_be_made(home: Path) -> Finding:
    """Check that the state directory can be created, without creating it."""
    ground = nearest_folder(home)
    if not ground.is_dir() or not os.access(ground, os.W_OK | os.X_OK):
        why = "is not writable" if ground.is_dir() else "is not a directory"
        return Finding(
            "fail",
            f"the state directory {home} cannot be created: {ground} {why}; change its permissions, or set HERMES_HOME",
        )
    return Finding("ok", f"the state directory {home} will be created at the first start")


def disk() -> Iterator[Finding]:
    """Warn about low disk space before messages are rejected because of it."""
    try:
        ground = nearest_folder(configuration_files.state_directory())
        free = shutil.disk_usage(ground).free // _MEGABYTE
    except (HermesError, OSError):
        return  # said in the line about the state directory
    if free < _LEAST_FREE_MB:
        level: Literal["fail", "warn"] = "fail" if free < _TOO_LITTLE_MB else "warn"
        yield Finding(
            level,
            f"only {free} MB are free on the disk of {ground}; free some: with a full disk Hermes accepts no message",
        )


def nearest_folder(path: Path) -> Path:
    """Return the path, or its nearest parent that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def private(path: Path, remedy: str) -> Iterator[Finding]:
    if path.stat().st_mode & _OTHERS:
        yield Finding("warn", f"{path} is open to other users of this machine; run `{remedy} {path}`")
    else:
        yield Finding("ok", f"{path} is private to you")


def configuration(path: Path | None) -> Generator[Finding, None, LoadedConfig | None]:
    """Return the configuration if it is valid."""
    try:
        loaded = load(path)
    except ConfigError as error:
        for problem in error.problems:
            yield Finding("fail", problem)
    except HermesError as error:
        yield Finding("fail", str(error))
    else:
        hint = "" if loaded.path else "; `hermes setup` writes a file"
        yield Finding("ok", f"configuration from {loaded.source}{hint}")
        if loaded.ignored:
            yield Finding("warn", ignored_sentence(loaded.ignored, loaded.source))
        return loaded
    return None


def keys() -> Iterator[Finding]:
    """Report the names of the keys that are set. Keys are optional: the embedded model needs none."""
    try:
        found = provider_keys()
    except HermesError as error:
        yield Finding("fail", str(error))
    else:
        yield Finding("ok", f"keys: {', '.join(found) or 'no provider has one here'}")


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


def plugins(loaded: LoadedConfig) -> Iterator[Finding]:
    """Check the enabled plugins and the context engine by running their code."""
    config, home = loaded.config, loaded.home
    enabled, every = survey_plugins(home, config.plugins.enabled)
    for plugin in every:
        if plugin.enabled and plugin.problem:
            yield Finding("fail", f"the plugin {plugin.name} cannot be loaded: {plugin.problem}")
    try:
        check_engine(
            config.context.engine,
            home=home,
            plugins=enabled,
            options=config.context.options,
            options_at=loaded.place_of("context.options"),
        )
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
        ask_model(configured, seconds=SECONDS_TO_ANSWER)
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
