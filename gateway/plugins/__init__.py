"""Plugins: third-party code, loaded by name. See `docs/context-engines.md`."""

from gateway.plugins.engines import engine_factory
from gateway.plugins.loader import Plugins

__all__ = ["Plugins", "engine_factory"]
