"""Access gate: decides whether the author of a message, edit, reaction, press or command may talk to a bot."""

from __future__ import annotations

from typing import Literal

from gateway.config.schema_platforms import BotConfig, is_id
from gateway.store.access import Access
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
        self._admins = frozenset(settings.admins)
        self._users = self._admins | frozenset(settings.allowed_users)
        self._groups = frozenset(settings.allowed_groups)
        self._everyone_in_groups = settings.group_members == "everyone"
        self._pairing = settings.pairing

    async def verdict(self, author: Author, place: Place) -> Verdict:
        if author.is_bot or not is_id(author.id):
            return "no"
        if place.kind == "direct" and not place.group_id:
            return await self._direct_verdict(author.id)
        return self._group_verdict(author.id, place)

    def is_admin(self, user_id: str) -> bool:
        return user_id in self._admins

    def may_approve(self, user_id: str, place: Place) -> bool:
        """Tell whether this user may approve a dangerous tool call. In a group, only allowed users may."""
        return place.kind == "direct" or user_id in self._users

    async def _direct_verdict(self, user_id: str) -> Verdict:
        # With pairing off, users who were approved before keep access until they are revoked.
        if user_id in self._users or await self._access.is_approved(self.platform, user_id):
            return "yes"
        return "stranger" if self._pairing else "no"

    def _group_verdict(self, user_id: str, place: Place) -> Verdict:
        """Ignore pairing approvals: they count for a direct chat only."""
        if place.kind != "group" or place.group_id not in self._groups:
            return "no"
        return "yes" if self._everyone_in_groups or user_id in self._users else "no"


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
