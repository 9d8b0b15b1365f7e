"""Sends pairing prompts, and handles pressed buttons: approvals of tool calls and of new people."""

from __future__ import annotations

from contextlib import suppress

from gateway.access import Gate, Pairing, PairingCode
from gateway.chat.adapter import ChatPort
from gateway.chat.delivery.manager import DeliveryManager
from gateway.chat.errors import DeliveryError
from gateway.chat.group_context import safe_name
from gateway.core.gateway import Gateway
from gateway.store.access import PairingLocked
from gateway.types import Author, Button, ChatMessage, Press

_NOT_YOU = "You may not decide this."
_OVER = "This request is no longer open."


class Callbacks:
    """Answers strangers with a pairing code, and handles pressed buttons: of the admins who are asked about a stranger,
    and of people who are asked about a tool call. Does not trust the data of a button."""

    def __init__(
        self, gateway: Gateway, port: ChatPort, gate: Gate, pairing: Pairing, delivery: DeliveryManager
    ) -> None:
        self._gateway = gateway
        self._port = port
        self._gate = gate
        self._pairing = pairing
        self._delivery = delivery

    async def send_code(self, message: ChatMessage) -> None:
        """Send a stranger the code, once. Nothing that the stranger wrote is stored."""
        code = await self._pairing.request(self._port.platform, message.author)
        if code is None or code.repeated:
            return
        if await self._delivery.send_notice(message.place, _welcome(message.author, code)) is None:
            self._pairing.forget_code(self._port.platform, message.author)
            return
        for admin in self._gate.admins:
            await self._ask(admin, message.author, code)

    async def _ask(self, admin: str, stranger: Author, code: PairingCode) -> None:
        buttons = (Button("Approve", f"pair:{code.code}:yes"), Button("Deny", f"pair:{code.code}:no"))
        question = (
            f"{safe_name(stranger.name)} (id {stranger.id}) would like to talk to me. Code {code.code}."
        )
        try:
            place = await self._port.direct(admin)
        except DeliveryError:
            return  # an admin who has never written to the bot cannot be reached; the code still works
        await self._delivery.send_notice(place, question, buttons=buttons)

    async def pressed(self, press: Press, *, person: str) -> str:
        """Handle a pressed button, and return a sentence for the person."""
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
        address = (await self._gateway.store.sessions.conversation(conversation_id)).address
        here = (self._port.platform, press.place.chat_id, press.place.thread_id)
        if (address.platform, address.chat_id, address.thread_id) != here:
            return _OVER
        return self._gateway.approvals.decide(
            approval_id, choice, person=person, conversation_id=conversation_id
        )

    async def _pair(self, press: Press, code: str, answer: str) -> str:
        if press.place.kind != "direct" or not self._gate.is_admin(press.author.id):
            return _NOT_YOU
        # Pressing an old button does not count as guessing a code, and an admin decides for this bot only.
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
            await self._delivery.send_notice(
                await self._port.direct(paired.user_id), "You may talk to me now."
            )
        return f"{safe_name(paired.name)} may talk to me now."


def _welcome(stranger: Author, code: PairingCode) -> str:
    return (
        "I do not know you yet. If this is your bot, run this on its machine; if not, ask its owner to:\n"
        f"`hermes pairing approve {code.code}`\n"
        f"The code is valid for an hour. Then write again. Your id is `{stranger.id}`."
    )
