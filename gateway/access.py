"""Access: a gate decides who may talk to a bot, and pairing admits newcomers by a code that the owner approves."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import structlog

from gateway.config.schema_platforms import BotConfig, is_id
from gateway.store.access import Access, AskingLimits, GuessingLimits, Paired, PairingRequest
from gateway.types import Author, Place

Verdict = Literal["yes", "no", "stranger"]
"""`stranger`: an unknown person in a direct chat with a bot that offers pairing."""


class Gate:
    """Access rules of one bot. Only the author's id counts: a name can change hands.

    The gate caches no verdict, so an approval or a revocation from another process takes effect with the next call.
    Ask again when a queued message gets its turn.
    """

    def __init__(self, platform: str, settings: BotConfig, access: Access) -> None:
        self.platform = platform
        self._access = access
        self.apply(settings)

    def apply(self, settings: BotConfig) -> None:
        """Use new settings from the next call on."""
        self.admins = settings.admins
        self._users = frozenset((*settings.admins, *settings.allowed_users))
        self._groups = frozenset(settings.allowed_groups)
        self._everyone_in_groups = settings.group_members == "everyone"
        self._pairing = settings.pairing

    async def verdict(self, author: Author, place: Place) -> Verdict:
        if author.is_bot or not is_id(author.id):
            return "no"
        is_allowed = author.id in self._users
        if place.kind == "direct" and not place.group_id:
            # With pairing off, users who were approved before keep access until they are revoked.
            if is_allowed or await self._access.is_approved(self.platform, author.id):
                return "yes"
            return "stranger" if self._pairing else "no"
        # Pairing approvals count for a direct chat only.
        is_allowed_group = place.kind == "group" and place.group_id in self._groups
        return "yes" if is_allowed_group and (is_allowed or self._everyone_in_groups) else "no"

    def is_admin(self, user_id: str) -> bool:
        return user_id in self.admins

    def may_approve(self, user_id: str, place: Place) -> bool:
        """Tell whether this user may approve a dangerous tool call. In a group, only allowed users may."""
        return place.kind == "direct" or user_id in self._users


class AccessControl:
    """The gates of all running bots, by platform."""

    def __init__(self) -> None:
        self._gates: dict[str, Gate] = {}

    def add(self, gate: Gate) -> Gate:
        self._gates[gate.platform] = gate
        return gate

    async def may_speak(self, platform: str, author: Author, place: Place) -> bool:
        """Tell whether this account may talk in this place now; False for a platform without a bot."""
        gate = self._gates.get(platform)
        return gate is not None and await gate.verdict(author, place) == "yes"


log = structlog.get_logger(__name__)

CODE_LENGTH = 8
ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Characters that cannot be misread: no 0 and O, no 1, I and L, no U."""

CODE_SECONDS = 3600.0
ASKING = AskingLimits(per_person=3, period_seconds=24 * 3600.0, pending=100)
"""With a hundred open codes, one guess in six billion is right, and five wrong codes lock approval."""
GUESSING = GuessingLimits(wrong_codes=5, seconds=600.0)

_MAX_NAME = 64
_SEPARATORS = re.compile(r"[\s\-\u2010-\u2015]+")
"""Spaces and dashes of all kinds: people group the characters of a code, and programs replace dashes."""


@dataclass(frozen=True, slots=True)
class PairingCode:
    code: str = field(repr=False)
    expires_at: float
    repeated: bool = False
    """The person has received this code before."""


class Pairing:
    """Issues and approves codes, for all bots of a process."""

    def __init__(self, access: Access, *, clock: Callable[[], float] = time.time) -> None:
        self._access = access
        self._clock = clock
        self._issued: dict[tuple[str, str], PairingCode] = {}
        """Codes in plain text, kept in memory only; after a restart a person who asks again gets another code."""
        self._lock = asyncio.Lock()

    async def request(self, platform: str, author: Author) -> PairingCode | None:
        """Return the person's code, the same one while it is valid; None if the person asked too often."""
        if author.is_bot or not is_id(author.id):
            return None
        # Two messages in a row must not produce two codes.
        async with self._lock:
            return await self._code_for(platform, author.id, author.name)

    async def is_open(self, platform: str, code: str) -> bool:
        """Tell whether a person on this platform waits for this code to be approved."""
        return await self._access.is_pending(platform, digest(code), now=self._clock())

    def forget_code(self, platform: str, author: Author) -> None:
        """Forget a code that could not be delivered: the person gets another one."""
        self._issued.pop((platform, author.id), None)

    async def approve(self, code: str, *, by: str) -> Paired | None:
        """Approve the person with this code; None if it is unknown or expired.

        Raises PairingLocked after too many wrong codes.
        """
        paired = await self._access.approve(digest(code), by=by, now=self._clock(), limits=GUESSING)
        if paired is None:
            log.warning("pairing.wrong_code", by=by)
        else:
            log.info("pairing.approved", platform=paired.platform, user=paired.user_id, by=by)
        return paired

    async def deny(self, code: str) -> bool:
        """Invalidate the code. The person may ask again within the limits."""
        return await self._access.deny(digest(code), now=self._clock())

    async def approve_person(self, platform: str, user_id: str, *, by: str) -> Paired | None:
        """Approve a waiting person without the code, as the owner; None if the person no longer waits."""
        paired = await self._access.approve_person(platform, user_id, by=by, now=self._clock())
        if paired is not None:
            log.info("pairing.approved", platform=platform, user=user_id, by=by)
        return paired

    async def deny_person(self, platform: str, user_id: str) -> bool:
        return await self._access.deny_person(platform, user_id, now=self._clock())

    async def revoke(self, platform: str, user_id: str) -> bool:
        """Make this person a stranger from the next message on; False if the person was not approved."""
        revoked = is_id(user_id) and await self._access.revoke(platform, user_id)
        if revoked:
            log.info("pairing.revoked", platform=platform, user=user_id)
        return revoked

    async def pending(self) -> list[PairingRequest]:
        return await self._access.pending(now=self._clock())

    async def approved(self) -> list[Paired]:
        return await self._access.approved()

    async def _code_for(self, platform: str, user_id: str, name: str) -> PairingCode | None:
        now = self._clock()
        known = self._issued.get((platform, user_id))
        if known and await self.is_open(platform, known.code):
            return PairingCode(known.code, known.expires_at, repeated=True)
        fresh = PairingCode(_new_code(), now + CODE_SECONDS)
        request = PairingRequest(platform, user_id, name[:_MAX_NAME], now, fresh.expires_at)
        if not await self._access.ask(request, digest(fresh.code), ASKING):
            log.info("pairing.too_often", platform=platform, user=user_id)
            return None
        self._issued = {key: code for key, code in self._issued.items() if code.expires_at > now}
        self._issued[platform, user_id] = fresh
        log.info("pairing.asked", platform=platform, user=user_id)
        return fresh


def digest(code: str) -> str:
    """Return the hash under which a code is stored, however the code was typed.

    A fast hash suffices: a code is valid for an hour.
    """
    return hashlib.sha256(_SEPARATORS.sub("", code).upper().encode("utf-8", "replace")).hexdigest()


def _new_code() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
