"""When a tool cannot do what it was asked for."""

from __future__ import annotations

import json


class Refused(Exception):
    """Its text is a sentence for the model that says what to do next."""


def as_error(sentence: str) -> str:
    return json.dumps({"error": sentence}, ensure_ascii=False)
