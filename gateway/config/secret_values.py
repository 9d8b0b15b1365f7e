"""Which secrets a configuration holds, for those who must take care that none gets out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel, SecretStr


def secret_values(value: object) -> Iterator[str]:
    """Of a section and all that is in it."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for _, inner in value:
            yield from secret_values(inner)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from secret_values(inner)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            yield from secret_values(inner)
