"""The contract of a platform: it turns its own events into `Gateway.receive()` and shows turn events."""

from __future__ import annotations

from typing import Protocol


class Platform(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def where(self) -> str:
        """Where a person finds it, for the start-up lines."""
        ...

    async def start(self) -> None:
        """Ready to take messages when this returns; raises a HermesError that says what to do."""
        ...

    async def stop(self) -> None: ...
