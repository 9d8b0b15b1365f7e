"""The store of access rights: pairing requests, approved people, and web sessions that were signed out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agent.errors import HermesError


@dataclass(frozen=True, slots=True)
class PairingRequest:
    """A person who got a pairing code and waits for the owner. Only a digest of the code is stored."""

    platform: str
    """The bot the person wrote to: `telegram`, or `telegram/work`."""
    user_id: str
    name: str
    """The name the person uses. It proves nothing."""
    asked_at: float
    expires_at: float


@dataclass(frozen=True, slots=True)
class Paired:
    """A person who may talk to one bot in a direct chat."""

    platform: str
    user_id: str
    name: str
    approved_by: str
    approved_at: float


@dataclass(frozen=True, slots=True)
class AskingLimits:
    """How many codes there may be, so that strangers can neither collect codes nor flood the owner with them."""

    per_person: int
    period_seconds: float
    """The period in which `per_person` counts."""
    pending: int
    """Open codes on one platform."""


@dataclass(frozen=True, slots=True)
class GuessingLimits:
    """After this many wrong codes within so many seconds, nothing is approved for as many seconds."""

    wrong_codes: int
    seconds: float


class PairingLocked(HermesError):
    """Too many wrong codes were tried, so no one can be approved for now; try again later."""

    def __init__(self, detail: str = "", *, until: float = 0.0) -> None:
        super().__init__(detail)
        self.until = until


class Access(Protocol):
    """Who may talk to a bot, and which web sessions were signed out. Every method is one transaction."""

    async def is_approved(self, platform: str, user_id: str) -> bool:
        """Read the current state, including changes that another process has just made."""
        ...

    async def ask(self, request: PairingRequest, digest: str, limits: AskingLimits) -> bool:
        """Store a request under the digest of its code; it replaces an earlier one. False if over the limits."""
        ...

    async def is_pending(self, platform: str, digest: str, *, now: float) -> bool: ...

    async def approve(self, digest: str, *, by: str, now: float, limits: GuessingLimits) -> Paired | None:
        """Approve the person with this code. None for an unknown or expired code, which counts as a wrong one.
        Raises PairingLocked."""
        ...

    async def deny(self, digest: str, *, now: float) -> bool: ...

    async def approve_person(self, platform: str, user_id: str, *, by: str, now: float) -> Paired | None:
        """Approve a person without their code. None if they have no open request."""
        ...

    async def deny_person(self, platform: str, user_id: str, *, now: float) -> bool: ...

    async def revoke(self, platform: str, user_id: str) -> bool: ...

    async def pending(self, *, now: float) -> list[PairingRequest]:
        """Return the open requests, the oldest first."""
        ...

    async def approved(self) -> list[Paired]:
        """Return the approved people by platform, the oldest approval first."""
        ...

    async def add_sign_out(self, digest: str, *, until: float, now: float) -> None:
        """Invalidate a cookie of the web chat, and forget invalid cookies that have expired."""
        ...

    async def sign_outs(self) -> set[str]:
        """Return the digests of invalid cookies."""
        ...
