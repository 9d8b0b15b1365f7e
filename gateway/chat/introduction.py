"""What a stranger hears: a code for the owner, and nothing else. Admins are asked with buttons."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.access.pairing import Pairing, PairingCode
from gateway.chat.contract import Author, Button, ChatMessage, ChatPort
from gateway.chat.errors import DeliveryError
from gateway.chat.followers import Followers
from gateway.chat.wording import speaker


class Introduction:
    def __init__(self, port: ChatPort, pairing: Pairing, followers: Followers, admins: Sequence[int]) -> None:
        self._port = port
        self._pairing = pairing
        self._followers = followers
        self.admins = admins

    async def of(self, message: ChatMessage) -> None:
        """Of what the stranger wrote nothing is kept. The code is told once: it stays in their chat."""
        code = await self._pairing.request(self._port.platform, message.author)
        if code is None or code.repeated:
            return
        if await self._followers.tell(message.place, _welcome(message.author, code)) is None:
            self._pairing.was_not_told(self._port.platform, message.author)
            return
        for admin in self.admins:
            await self._ask(admin, message.author, code)

    async def _ask(self, admin: int, stranger: Author, code: PairingCode) -> None:
        buttons = (Button("Approve", f"pair:{code.code}:yes"), Button("Deny", f"pair:{code.code}:no"))
        question = f"{speaker(stranger.name)} (id {stranger.id}) would like to talk to me. Code {code.code}."
        try:
            place = await self._port.direct(str(admin))
        except DeliveryError:
            return  # an admin who has never written to the bot cannot be reached; the code is enough
        await self._followers.tell(place, question, buttons=buttons)


def _welcome(stranger: Author, code: PairingCode) -> str:
    return (
        "I do not know you yet. If this is your bot, run this on its machine; if not, ask its owner to:\n"
        f"`hermes pairing approve {code.code}`\n"
        f"The code is good for an hour. Then write again. Your id is `{stranger.id}`."
    )
