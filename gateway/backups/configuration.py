"""Whether a configuration may leave the machine with a backup."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import yaml

from agent.redaction import redact

_SHORTEST = 4
"""What is shorter is found in any text, and protects nothing."""


def holds_secret(text: str, secrets: Collection[str]) -> bool:
    """One of these, or anything that looks like a key, also in a comment. Rather once too often."""
    written = [text, *_scalars(text)]
    if any(secret in part for secret in secrets if len(secret) >= _SHORTEST for part in written):
        return True
    return any(redact(part) != part for part in written)


def _scalars(text: str) -> Iterator[str]:
    """As they are meant: in quotes, `\\x73` is an `s`, and a line may be broken anywhere."""
    return (token.value for token in yaml.scan(text) if isinstance(token, yaml.ScalarToken))
