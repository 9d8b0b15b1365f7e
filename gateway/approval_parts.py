"""What a person is asked to approve, in a form that can be read and that hides nothing."""

from __future__ import annotations

import json

from gateway.chat.showing.wording import unmasked


def approval_parts(arguments: str) -> list[tuple[str, str]]:
    """The arguments with their names, text as it is. A surface keeps them apart, so that none can pose as another."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return [("", unmasked(arguments))]
    if not isinstance(given, dict):
        return [("", unmasked(arguments))]
    return [(unmasked(name), unmasked(_as_text(value))) for name, value in given.items()]


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
