"""Every secret that Hermes is given, so that none of them ever shows: see `agent/redaction/known.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from pydantic import BaseModel, SecretStr

from gateway.config.environment import environment
from gateway.config.load import Loaded

_SECRET_NAME = re.compile(
    r"(?:_KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)\Z|\A(?:AWS|AZURE)_.*_KEY", re.IGNORECASE
)
_PLAIN_WORD = re.compile(r"[a-z-]{1,15}", re.IGNORECASE)
_A_PATH = ("/", "~", "./")


def secrets_of(loaded: Loaded) -> list[str]:
    """From the configuration, and from the environment and `.env` by the names of the variables."""
    return sorted({value for value in chain(_configured(loaded.config), _in_environment(loaded)) if value})


def _configured(value: Any) -> Iterator[str]:
    if isinstance(value, SecretStr):
        yield value.get_secret_value().strip()
    elif isinstance(value, BaseModel):
        # A server of one's own asks for no key, or takes any word: that would be missed all over the place.
        own_server = getattr(value, "base_url", None) is not None
        for name in type(value).model_fields:
            found = list(_configured(getattr(value, name)))
            if not (name == "api_key" and own_server):
                yield from found
            else:
                yield from (secret for secret in found if not _PLAIN_WORD.fullmatch(secret))
    elif isinstance(value, dict):
        yield from chain.from_iterable(map(_configured, value.values()))
    elif isinstance(value, tuple | list):
        yield from chain.from_iterable(map(_configured, value))


def _in_environment(loaded: Loaded) -> Iterator[str]:
    for name, value in environment(loaded.home).items():
        if _SECRET_NAME.search(name) and not value.startswith(_A_PATH):
            yield value.strip()
