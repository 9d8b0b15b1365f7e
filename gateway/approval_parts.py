"""What a person is asked to approve, in a form that can be read and that hides nothing."""

from __future__ import annotations

import json

from gateway.text.lookalikes import written_out


def approval_parts(arguments: str) -> list[tuple[str, str]]:
    """The arguments with their names, text as it is. A surface keeps them apart, so that none can pose as another."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return [("", written_out(arguments))]
    if not isinstance(given, dict):
        return [("", written_out(arguments))]
    return [(written_out(name), written_out(_as_text(value))) for name, value in given.items()]


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
