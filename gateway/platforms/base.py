"""The contract of a platform: it turns its own events into `Gateway.receive()` and shows turn events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from agent.redaction import own_rules, redact


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a platform takes messages now, and if not, what to do about it."""

    state: Literal["up", "starting", "down", "refused"]
    """`down` is tried again by itself; `refused` needs a person, and is tried again now and then."""
    detail: str = ""
    """Everybody may read it, so no secret is in it, whatever a service has quoted."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "detail", redact(self.detail, own_rules()))


class Platform(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def where(self) -> str:
        """Where a person finds it, for the start-up lines."""
        ...

    @property
    def health(self) -> Health: ...

    async def start(self) -> None:
        """Ready to take messages, or trying to be, when this returns. Raises a HermesError that says what to do if
        it can never be."""
        ...

    async def stop(self) -> None: ...
