"""Buttons that were pressed. The gate is asked first, as for a message; the data is not trusted."""

from __future__ import annotations

from contextlib import suppress

from gateway.access.gate import Gate
from gateway.access.pairing import Pairing
from gateway.access.people import PairingLocked
from gateway.chat.contract import ChatPort, Press
from gateway.chat.errors import DeliveryError
from gateway.chat.followers import Followers
from gateway.chat.wording import speaker
from gateway.gateway import Gateway

_NOT_YOU = "That is not for you to decide."
_OVER = "This request is no longer open."


class Buttons:
    def __init__(
        self, gateway: Gateway, port: ChatPort, gate: Gate, pairing: Pairing, followers: Followers
    ) -> None:
        self._gateway = gateway
        self._port = port
        self._gate = gate
        self._pairing = pairing
        self._followers = followers

    async def pressed(self, press: Press, *, person: str) -> str:
        """A sentence for the one who pressed."""
        if await self._gate.verdict(press.author, press.place) != "yes":
            return _NOT_YOU
        match press.data.split(":"):
            case ["approve", approval_id, choice]:
                return await self._approve(press, approval_id, choice, person)
            case ["pair", code, answer]:
                return await self._pair(press, code, answer)
        return _OVER

    async def _approve(self, press: Press, approval_id: str, choice: str, person: str) -> str:
        conversation_id = self._gateway.approvals.conversation_of(approval_id)
        if conversation_id is None:
            return _OVER
        address = (await self._gateway.store.conversation(conversation_id)).address
        here = (self._port.platform, press.place.chat_id, press.place.thread_id)
        if (address.platform, address.chat_id, address.thread_id) != here:
            return _OVER
        return self._gateway.approvals.decide(
            approval_id, choice, person=person, conversation_id=conversation_id
        )

    async def _pair(self, press: Press, code: str, answer: str) -> str:
        if press.place.kind != "direct" or not self._gate.is_admin(press.author.id):
            return _NOT_YOU
        # An old button is no guess, and an admin of this bot decides about this bot only.
        if not await self._pairing.is_open(self._port.platform, code):
            return _OVER
        try:
            outcome = await self._settle_pairing(press, code, answer)
        except PairingLocked as error:
            return str(error)
        with suppress(DeliveryError):
            await self._port.edit(press.place, press.message_id, outcome)
        return outcome

    async def _settle_pairing(self, press: Press, code: str, answer: str) -> str:
        if answer != "yes":
            return "Denied." if await self._pairing.deny(code) else _OVER
        paired = await self._pairing.approve(code, by=f"{self._port.platform}:{press.author.id}")
        if paired is None:
            return _OVER
        with suppress(DeliveryError):
            await self._followers.tell(await self._port.direct(paired.user_id), "You may talk to me now.")
        return f"{speaker(paired.name)} may talk to me now."
