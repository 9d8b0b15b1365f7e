"""Collects the secrets of the configuration and the environment, for redaction (`agent/redaction/known.py`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from pydantic import BaseModel, SecretStr

from gateway.config.environment import environment
from gateway.config.loader import LoadedConfig


class Secret(NamedTuple):
    value: str
    """Never empty."""
    for_own_server: bool
    """The key is for the owner's own server, which may accept any word."""


def secret_values(value: object) -> Iterator[str]:
    """Yield the secrets in a section, with all sections below it."""
    return (secret.value for secret in secrets_in(value))


def secrets_in(value: object, *, for_own_server: bool = False) -> Iterator[Secret]:
    """Yield the same secrets with their use."""
    if isinstance(value, SecretStr):
        if secret := value.get_secret_value().strip():
            yield Secret(secret, for_own_server)
    elif isinstance(value, BaseModel):
        has_own_server = getattr(value, "base_url", None) is not None
        for name, inner in value:
            yield from secrets_in(inner, for_own_server=has_own_server and name == "api_key")
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if isinstance(inner, str) and inner.strip() and is_secret_name(str(name)):
                yield Secret(inner.strip(), for_own_server=False)  # in a section that no model describes
            yield from secrets_in(inner)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for inner in value:
            yield from secrets_in(inner)


_SECRET_NAME = re.compile(
    r"(?:_KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)\Z|\A(?:AWS|AZURE)_.*_KEY", re.IGNORECASE
)


def is_secret_name(name: str) -> bool:
    """Tell whether a variable or key of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


_PLAIN_WORD = re.compile(r"[a-z-]{1,15}", re.IGNORECASE)
"""`anything`, `disabled`, `not-needed`: placeholders, whose redaction would remove ordinary words from texts."""
_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
"""`name=value,name=value`: credentials for a trace collector."""
_A_PATH = ("/", "~", "./")


def all_secrets(loaded: LoadedConfig) -> list[str]:
    """Return the secrets of the configuration, and those of the environment and `.env` by variable name."""
    return sorted(set(chain(_configured(loaded), _in_environment(loaded))))


def _configured(loaded: LoadedConfig) -> Iterator[str]:
    for secret, for_own_server in secrets_in(loaded.config):
        if not (for_own_server and _PLAIN_WORD.fullmatch(secret)):
            yield secret


def _in_environment(loaded: LoadedConfig) -> Iterator[str]:
    for name, given in environment(loaded.home).items():
        value = given.strip()
        is_something_else = not value or value.startswith(_A_PATH) or _PLAIN_WORD.fullmatch(value)
        if is_secret_name(name) and not is_something_else:
            yield value
        if name == _HEADERS:
            yield from filter(None, (header.partition("=")[2].strip() for header in value.split(",")))
