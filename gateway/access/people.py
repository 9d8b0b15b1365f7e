"""The port to what is remembered about people: who was approved, who is asking, and how often codes were guessed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from agent.errors import HermesError

_NUMBER = re.compile(r"-?[0-9]{1,30}")


@dataclass(frozen=True, slots=True)
class PairingRequest:
    """Somebody who was given a code and waits for the owner. The code itself is kept by nobody but them."""

    platform: str
    """The bot they wrote to: `telegram`, or `telegram/work`."""
    user_id: str
    name: str
    """What they call themselves. It proves nothing."""
    asked_at: float
    expires_at: float


@dataclass(frozen=True, slots=True)
class Paired:
    """Somebody who may talk to this one bot in a direct chat."""

    platform: str
    user_id: str
    name: str
    approved_by: str
    approved_at: float


@dataclass(frozen=True, slots=True)
class AskingLimits:
    """How many codes there may be, so that strangers can neither collect them nor bury the owner in them."""

    per_person: int
    period_seconds: float
    """In which `per_person` counts."""
    pending: int
    """On one platform at a time."""


@dataclass(frozen=True, slots=True)
class GuessingLimits:
    """After so many wrong codes within so many seconds, nothing is approved for as long."""

    wrong_codes: int
    seconds: float


class PairingLocked(HermesError):
    """Too many wrong codes were tried, so nobody can be approved for now; try again later."""

    def __init__(self, detail: str = "", *, until: float = 0.0) -> None:
        super().__init__(detail)
        self.until = until


class People(Protocol):
    """Every verb is one transaction. Ids are numbers in plain digits; codes come as their digests."""

    async def is_approved(self, platform: str, user_id: str) -> bool:
        """As of now, also if another process has just changed it."""
        ...

    async def ask(self, request: PairingRequest, digest: str, limits: AskingLimits) -> bool:
        """Notes the request under its code, in place of an earlier one; False where that is one too many."""
        ...

    async def is_pending(self, platform: str, digest: str, *, now: float) -> bool: ...

    async def approve(self, digest: str, *, by: str, now: float, limits: GuessingLimits) -> Paired | None:
        """None for a code that is unknown or too old, which counts as wrong. Raises PairingLocked."""
        ...

    async def deny(self, digest: str, *, now: float) -> bool: ...

    async def approve_person(self, platform: str, user_id: str, *, by: str, now: float) -> Paired | None:
        """Without their code, by somebody who sees the list of those who wait. None if they do not."""
        ...

    async def deny_person(self, platform: str, user_id: str, *, now: float) -> bool: ...

    async def revoke(self, platform: str, user_id: str) -> bool: ...

    async def pending(self, *, now: float) -> list[PairingRequest]:
        """The earliest first."""
        ...

    async def approved(self) -> list[Paired]:
        """By platform, the earliest first."""
        ...


def number_in(text: str) -> int | None:
    """The number of an account or a group; None for anything else, such as a name."""
    return int(text) if _NUMBER.fullmatch(text) else None


def person_in(text: str) -> int | None:
    """The number of a person's account. Groups and channels have negative ones, and those can be senders too."""
    number = number_in(text)
    return number if number is not None and number > 0 else None
