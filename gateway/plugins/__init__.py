"""Plugins: third-party code, loaded by name. See `docs/context-engines.md`."""

from gateway.plugins.context import PluginContext
from gateway.plugins.engines import (
    EngineInfo,
    available_engines,
    check_engine,
    engine_factory,
    engine_or_built_in,
    engine_problem,
    fallback_sentence,
    hidden_engines,
)
from gateway.plugins.hooks import EVENTS, Event
from gateway.plugins.loader import PluginInfo, Plugins, check_plugin, load_plugins, survey_plugins

__all__ = [
    "EVENTS",
    "EngineInfo",
    "Event",
    "PluginContext",
    "PluginInfo",
    "Plugins",
    "available_engines",
    "check_engine",
    "check_plugin",
    "engine_factory",
    "engine_or_built_in",
    "engine_problem",
    "fallback_sentence",
    "hidden_engines",
    "load_plugins",
    "survey_plugins",
]
