"""The effective configuration as lines of YAML, with secrets masked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from gateway.config.loader import LoadedConfig
from gateway.config.secrets import is_secret_name

_OPTIONS = "context.options."
_MASK = "'**********'"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of YAML."""

    key: str
    """The full key: `platforms.web.port`."""
    name: str
    depth: int
    value: str
    """Empty for a section."""
    origin: str
    """`default`, `line 3` or `$VARIABLE`; empty for a section."""

    @property
    def indent(self) -> str:
        return "  " * self.depth


def effective_lines(loaded: LoadedConfig) -> list[Line]:
    return list(_lines(loaded.config.model_dump(mode="json"), "", 0, loaded.origins))


def _lines(section: Mapping[str, Any], prefix: str, depth: int, origins: Mapping[str, str]) -> Iterator[Line]:
    for name, value in section.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and value:
            yield Line(key, name, depth, "", "")
            yield from _lines(value, f"{key}.", depth + 1, origins)
        else:
            is_masked = _comes_from_variable(key, origins) or (
                isinstance(value, str) and is_secret_name(name)
            )
            text = _MASK if is_masked else _as_yaml(value)
            yield Line(key, name, depth, text, origins.get(key, "default"))


def _comes_from_variable(key: str, origins: Mapping[str, str]) -> bool:
    """Tell whether an engine option comes from a variable. Only the engine knows which options are secret, so all such
    values are masked."""
    return key.startswith(_OPTIONS) and any(
        origin.startswith("$")
        for name, origin in origins.items()
        if name == key or name.startswith(f"{key}[")
    )


def _as_yaml(value: Any) -> str:
    """Format the value on one line."""
    if isinstance(value, str) and "\n" in value:
        return json.dumps(value, ensure_ascii=False)
    text: str = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=float("inf"))
    return text.removesuffix("...\n").rstrip("\n")
