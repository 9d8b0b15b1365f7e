"""Asking a person before a dangerous tool runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

Choice = Literal["once", "conversation", "deny"]


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """Exactly what is to be run: another argument is another request."""

    tool: str
    arguments: str
    """As one line of JSON with sorted keys, so that the same call always reads the same."""


Approve = Callable[[ApprovalRequest], Awaitable[str]]
"""Waits for the person. Empty text means yes; else it is the sentence for the model that says why not."""
