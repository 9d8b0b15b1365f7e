"""Finds the secrets of configuration and environment for redaction, and shows the configuration without them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import yaml
from pydantic import BaseModel, SecretStr

from gateway.config.environment import environment
from gateway.config.loader import LoadedConfig

_SECRET_NAME = re.compile(
    r"(?:_KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)\Z|\A(?:AWS|AZURE)_.*_KEY", re.IGNORECASE
)
_PLAIN_WORD = re.compile(r"[a-z-]{1,15}", re.IGNORECASE)
"""`anything`, `disabled`, `not-needed`: placeholders, whose redaction would remove ordinary words from texts."""
_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
"""`name=value,name=value`: credentials for a trace collector."""
_PATH_STARTS = ("/", "~", "./")


def is_secret_name(name: str) -> bool:
    """Tell whether a variable or key of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def all_secrets(loaded: LoadedConfig) -> list[str]:
    """Return the secrets of the configuration, and those of the environment and `.env` by variable name."""
    return sorted(set(chain(_configured(loaded.config), _in_environment(loaded))))


def _configured(value: object, *, for_own_server: bool = False) -> Iterator[str]:
    """Yield the secrets in a section and below it. The owner's own server may accept any word as a key."""
    if isinstance(value, SecretStr):
        secret = value.get_secret_value().strip()
        if secret and not (for_own_server and _PLAIN_WORD.fullmatch(secret)):
            yield secret
    elif isinstance(value, BaseModel):
        has_own_server = getattr(value, "base_url", None) is not None
        for name, inner in value:
            yield from _configured(inner, for_own_server=has_own_server and name == "api_key")
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if isinstance(inner, str) and inner.strip() and is_secret_name(str(name)):
                yield inner.strip()  # in a section that no model describes
            yield from _configured(inner)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for inner in value:
            yield from _configured(inner)


def _in_environment(loaded: LoadedConfig) -> Iterator[str]:
    for name, given in environment(loaded.home).items():
        value = given.strip()
        is_something_else = not value or value.startswith(_PATH_STARTS) or _PLAIN_WORD.fullmatch(value)
        if is_secret_name(name) and not is_something_else:
            yield value
        if name == _HEADERS:
            yield from filter(None, (header.partition("=")[2].strip() for header in value.split(",")))


_OPTIONS = "context.options."
_MASK = "'**********'"


@dataclass(frozen=True, slots=True)
class ConfigLine:
    """One line of the effective configuration, as YAML."""

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


def effective_lines(loaded: LoadedConfig) -> list[ConfigLine]:
    return list(_lines(loaded.config.model_dump(mode="json"), "", 0, loaded.origins))


def _lines(
    section: Mapping[str, Any], prefix: str, depth: int, origins: Mapping[str, str]
) -> Iterator[ConfigLine]:
    for name, value in section.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and value:
            yield ConfigLine(key, name, depth, "", "")
            yield from _lines(value, f"{key}.", depth + 1, origins)
        else:
            is_masked = _comes_from_variable(key, origins) or (
                isinstance(value, str) and is_secret_name(name)
            )
            text = _MASK if is_masked else _as_yaml(value)
            yield ConfigLine(key, name, depth, text, origins.get(key, "default"))


def _comes_from_variable(key: str, origins: Mapping[str, str]) -> bool:
    """Tell whether an engine option comes from a variable: only the engine knows which of its options are secret."""
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
