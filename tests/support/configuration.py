"""Builds the current configuration of a gateway without a file."""

from __future__ import annotations

from typing import Any

from gateway.config.schema import Config
from gateway.reload import CurrentConfig


def current_config(**sections: Any) -> CurrentConfig:
    """`current_config(gateway={"busy": "steer"})`: these values, no waiting at a stop, and else the defaults."""
    gateway = {"drain_seconds": 0, **sections.pop("gateway", {})}
    return CurrentConfig(Config.model_validate({"gateway": gateway, **sections}))
