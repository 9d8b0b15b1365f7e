"""Every secret that Hermes is given, so that none of them ever shows: see `agent/redaction/known.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from gateway.config.environment import environment
from gateway.config.load import Loaded
from gateway.config.secret_values import secrets_in

_SECRET_NAME = re.compile(
    r"(?:_KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)\Z|\A(?:AWS|AZURE)_.*_KEY", re.IGNORECASE
)
_PLAIN_WORD = re.compile(r"[a-z-]{1,15}", re.IGNORECASE)
"""`anything`, `disabled`, `not-needed`: what stands where no key is asked for would be missed all over the place."""
_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
"""`name=value,name=value`: how one shows a collector of traces that one may send it some."""
_A_PATH = ("/", "~", "./")


def secrets_of(loaded: Loaded) -> list[str]:
    """From the configuration, and from the environment and `.env` by the names of the variables."""
    return sorted(set(chain(_configured(loaded), _in_environment(loaded))))


def _configured(loaded: Loaded) -> Iterator[str]:
    for secret, for_own_server in secrets_in(loaded.config):
        if not (for_own_server and _PLAIN_WORD.fullmatch(secret)):
            yield secret


def _in_environment(loaded: Loaded) -> Iterator[str]:
    for name, given in environment(loaded.home).items():
        value = given.strip()
        is_something_else = not value or value.startswith(_A_PATH) or _PLAIN_WORD.fullmatch(value)
        if _SECRET_NAME.search(name) and not is_something_else:
            yield value
        if name == _HEADERS:
            yield from filter(None, (header.partition("=")[2].strip() for header in value.split(",")))
