"""Which secrets a configuration holds, for those who must take care that none gets out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import BaseModel, SecretStr


class Secret(NamedTuple):
    value: str
    """Never empty."""
    for_own_server: bool
    """A server of one's own asks for no key, or takes any word."""


def secret_values(value: object) -> Iterator[str]:
    """Of a section and all that is in it."""
    return (secret.value for secret in secrets_in(value))


def secrets_in(value: object, *, for_own_server: bool = False) -> Iterator[Secret]:
    """The same, with what they are for."""
    if isinstance(value, SecretStr):
        if secret := value.get_secret_value().strip():
            yield Secret(secret, for_own_server)
    elif isinstance(value, BaseModel):
        has_own_server = getattr(value, "base_url", None) is not None
        for name, inner in value:
            yield from secrets_in(inner, for_own_server=has_own_server and name == "api_key")
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from secrets_in(inner)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for inner in value:
            yield from secrets_in(inner)
