"""The one gate: whoever writes, edits, reacts, presses or types a command comes through here, or not at all."""

from __future__ import annotations

from typing import Literal

from gateway.config.schema_platforms import BotConfig
from gateway.store.ports import Access, number_in, person_in
from gateway.types import Author, Place

Verdict = Literal["yes", "no", "stranger"]
"""`stranger`: an unknown person in a direct chat with a bot that offers pairing."""


class Gate:
    """Whom one bot listens to. Numbers decide and nothing else: a name can change hands.

    It keeps no answer, so an approval or a revocation from another process counts from the next question on. Ask it
    again when a message that has waited gets its turn.
    """

    def __init__(self, platform: str, settings: BotConfig, people: Access) -> None:
        self._platform = platform
        self._people = people
        self.apply(settings)

    def apply(self, settings: BotConfig) -> None:
        """From the next question on."""
        self._admins = frozenset(settings.admins)
        self._users = self._admins | frozenset(settings.allowed_users)
        self._groups = frozenset(settings.allowed_groups)
        self._everyone_in_groups = settings.group_members == "everyone"
        self._pairing = settings.pairing

    async def verdict(self, author: Author, place: Place) -> Verdict:
        person = person_in(author.id)
        if person is None or author.is_bot:
            return "no"
        if place.kind == "direct" and not place.group_id:
            return await self._in_direct_chat(person)
        return self._in_group(person, place)

    def is_admin(self, author_id: str) -> bool:
        return person_in(author_id) in self._admins

    def may_approve(self, author_id: str, place: Place) -> bool:
        """Whether this person's word is enough to run a dangerous tool: in a group, everybody may talk but not that."""
        return place.kind == "direct" or person_in(author_id) in self._users

    async def _in_direct_chat(self, person: int) -> Verdict:
        # Where pairing is off, those who were approved before still count until they are revoked.
        if person in self._users or await self._people.is_approved(self._platform, str(person)):
            return "yes"
        return "stranger" if self._pairing else "no"

    def _in_group(self, person: int, place: Place) -> Verdict:
        """Approvals are not looked at: they were given for a direct chat."""
        if place.kind != "group" or number_in(place.group_id) not in self._groups:
            return "no"
        return "yes" if self._everyone_in_groups or person in self._users else "no"
