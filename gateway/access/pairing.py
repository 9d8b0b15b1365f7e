"""How a stranger becomes known: the bot gives them a code, and they give it to the owner, who approves it."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from gateway.store.ports import Access, AskingLimits, GuessingLimits, Paired, PairingRequest, person_in
from gateway.types import Author

log = structlog.get_logger(__name__)

CODE_LENGTH = 8
ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Nothing that could be read as something else: no 0 and O, no 1, I and L, no U and V side by side."""

CODE_SECONDS = 3600.0
ASKING = AskingLimits(per_person=3, period_seconds=24 * 3600.0, pending=100)
"""With a hundred open codes, one guess in six billion is right, and after five wrong ones nobody may guess."""
GUESSING = GuessingLimits(wrong_codes=5, seconds=600.0)

_LONGEST_NAME = 64
_IGNORED = re.compile(r"[\s\-\u2010-\u2015]+")
"""Spaces and dashes of all kinds: people group what they read out, and programs prettify what they paste."""


@dataclass(frozen=True, slots=True)
class PairingCode:
    code: str = field(repr=False)
    expires_at: float
    repeated: bool = False
    """This person was told it before."""


class Pairing:
    """One for all bots of a process."""

    def __init__(self, people: Access, *, clock: Callable[[], float] = time.time) -> None:
        self._people = people
        self._clock = clock
        self._given: dict[tuple[str, str], PairingCode] = {}
        """Only here is a code known in plain text; after a restart, whoever asks again gets another."""
        self._one_at_a_time = asyncio.Lock()

    async def request(self, platform: str, author: Author) -> PairingCode | None:
        """The code for this person, the same one while it is valid. None: they asked too often."""
        person = person_in(author.id)
        if person is None or author.is_bot:
            return None
        # Two messages in a row must not come to two codes.
        async with self._one_at_a_time:
            return await self._code_for(platform, str(person), author.name)

    async def is_open(self, platform: str, code: str) -> bool:
        """Whether somebody waits for this code to be approved, on this platform."""
        return await self._people.is_pending(platform, digest(code), now=self._clock())

    def was_not_told(self, platform: str, author: Author) -> None:
        """The code could not be delivered: whoever asks again gets another."""
        self._given.pop((platform, author.id), None)

    async def approve(self, code: str, *, by: str) -> Paired | None:
        """Lets its owner in. None if the code is unknown or expired; raises PairingLocked after too many of those."""
        paired = await self._people.approve(digest(code), by=by, now=self._clock(), limits=GUESSING)
        if paired is None:
            log.warning("pairing.wrong_code", by=by)
        else:
            log.info("pairing.approved", platform=paired.platform, user=paired.user_id, by=by)
        return paired

    async def deny(self, code: str) -> bool:
        """Makes the code worthless. The person may ask again, as often as the limits allow."""
        return await self._people.deny(digest(code), now=self._clock())

    async def approve_person(self, platform: str, user_id: str, *, by: str) -> Paired | None:
        """For the owner, who sees who waits and needs no code. None if they do not wait any more."""
        paired = await self._people.approve_person(platform, user_id, by=by, now=self._clock())
        if paired is not None:
            log.info("pairing.approved", platform=platform, user=user_id, by=by)
        return paired

    async def deny_person(self, platform: str, user_id: str) -> bool:
        return await self._people.deny_person(platform, user_id, now=self._clock())

    async def revoke(self, platform: str, user_id: str) -> bool:
        """From the next message on, this person is a stranger again. False if they were not approved."""
        person = person_in(user_id)
        revoked = person is not None and await self._people.revoke(platform, str(person))
        if revoked:
            log.info("pairing.revoked", platform=platform, user=user_id)
        return revoked

    async def pending(self) -> list[PairingRequest]:
        return await self._people.pending(now=self._clock())

    async def approved(self) -> list[Paired]:
        return await self._people.approved()

    async def _code_for(self, platform: str, user_id: str, name: str) -> PairingCode | None:
        now = self._clock()
        known = self._given.get((platform, user_id))
        if known and await self.is_open(platform, known.code):
            return PairingCode(known.code, known.expires_at, repeated=True)
        fresh = PairingCode(_new_code(), now + CODE_SECONDS)
        request = PairingRequest(platform, user_id, name[:_LONGEST_NAME], now, fresh.expires_at)
        if not await self._people.ask(request, digest(fresh.code), ASKING):
            log.info("pairing.too_often", platform=platform, user=user_id)
            return None
        self._given = {who: code for who, code in self._given.items() if code.expires_at > now}
        self._given[platform, user_id] = fresh
        log.info("pairing.asked", platform=platform, user=user_id)
        return fresh


def digest(code: str) -> str:
    """What is stored of a code, however it was typed. A fast hash will do for what is worthless in an hour."""
    return hashlib.sha256(_IGNORED.sub("", code).upper().encode("utf-8", "replace")).hexdigest()


def _new_code() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
