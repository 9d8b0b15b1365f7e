"""Where every chat message comes in: who may speak, what belongs together, what the model gets to read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

import structlog

from agent.errors import HermesError
from agent.ids import id_from
from agent.store import Address, Conversation
from gateway.access.gate import Gate
from gateway.access.pairing import Pairing
from gateway.chat.buttons import Buttons
from gateway.chat.contract import Author, ChatMessage, ChatPort, Place, Press
from gateway.chat.followers import Followers
from gateway.chat.introduction import Introduction
from gateway.chat.joining import Joining
from gateway.chat.lines import Lines
from gateway.chat.overhearing import Overhearing
from gateway.chat.recent import Recent
from gateway.chat.wording import Overheard, as_read
from gateway.commands import is_command
from gateway.config.platforms import BotConfig
from gateway.gateway import Gateway
from gateway.media.intake import MediaIntake
from gateway.messages import InboundMessage

log = structlog.get_logger(__name__)

_CLOSING_SECONDS = 5.0
_MOST_CHANGES = 20
_MOST_PLACES = 100
_LONGEST_LINE = 200
"""Messages of one chat that wait for their files or for those before them. A service hands over up to a hundred at once
after an absence."""
_TOO_MANY = (
    "⚠ Too many messages came at once. This one and what follows was not taken; send it again in a moment."
)
_NOT_TAKEN = "⚠ Hermes is stopping and could not take your message; send it again in a moment."
_OUR_FAULT = "⚠ Something went wrong inside Hermes, and your message was not taken; the log says more."


class Reception:
    """The `ChatDesk` of one bot."""

    def __init__(
        self,
        gateway: Gateway,
        port: ChatPort,
        gate: Gate,
        pairing: Pairing,
        media: MediaIntake,
        settings: BotConfig,
        *,
        join_seconds: float,
    ) -> None:
        self._gateway = gateway
        self._port = port
        self._gate = gate
        self._media = media
        self._per_person = settings.groups == "per_person"
        self._followers = Followers(gateway.hub, port, streaming=settings.streaming)
        self._introduction = Introduction(port, pairing, self._followers, settings.admins)
        self._buttons = Buttons(gateway, port, gate, pairing, self._followers)
        self._recent = Recent()
        self._overhearing = Overhearing(settings.group_context)
        self._changes = Overhearing(_MOST_CHANGES)
        """Edits of messages the model has already read, by conversation."""
        self._lines = Lines(_LONGEST_LINE)
        self._flooded: set[Place] = set()
        """Where somebody was told that too much came at once."""
        self._in_line: dict[tuple[Place, str], ChatMessage] = {}
        """Taken, but not yet handed in."""
        self._joining = Joining(join_seconds, self._stand_in_line)

    async def message(self, message: ChatMessage) -> bool:
        verdict = await self._gate.verdict(message.author, message.place)
        if verdict == "stranger":
            await self._introduction.of(message)
        elif verdict == "no":
            about = {"author": message.author.id, "group": message.place.group_id}
            log.info("chat.refused", platform=self._port.platform, **about)
        elif self._recent.add(message):
            await self._take(message)
        return verdict == "yes"

    async def edited(self, message: ChatMessage) -> None:
        """What still waits is replaced. What was read is not answered again: the model learns of the change with the
        next message."""
        known = self._recent.get(message)
        if known is None or known.text == message.text:
            return
        if await self._gate.verdict(message.author, message.place) != "yes":
            return
        known.text = message.text
        if self._joining.replace(message) or is_command(message.text):
            return
        if known.overheard:
            if message.addressed:
                known.overheard = False
                await self._take(message)
            return
        changed = known.inbound and replace(known.inbound, text=as_read(message, ()))
        if changed is None or not self._gateway.replace_waiting(known.conversation_id, changed):
            remark = Overheard(message.author.name, f"(changed an earlier message to) {message.text}")
            self._changes.add(self._address(message), remark)

    async def pressed(self, press: Press) -> str:
        return await self._buttons.pressed(press, person=self._person_key(press.author))

    async def places(self) -> list[Place]:
        listed = await self._gateway.store.conversations(platform=self._port.platform, limit=_MOST_PLACES)
        addresses = (overview.conversation.address for overview in listed)
        return list(dict.fromkeys(Place(address.chat_id, address.thread_id) for address in addresses))

    async def stored(self, place: Place, message_ids: Sequence[str]) -> set[str]:
        ids = {self._message_id(place, message_id): message_id for message_id in message_ids}
        return {ids[known] for known in await self._gateway.store.known(list(ids))}

    async def close(self) -> None:
        self._joining.flush_all()
        await self._lines.close(_CLOSING_SECONDS)
        for message in list(self._in_line.values()):
            await self._followers.tell(message.place, _NOT_TAKEN, reply_to=message.id)
        await self._followers.close()

    async def _take(self, message: ChatMessage) -> None:
        belongs_to_the_bot = message.addressed or message.album or self._joining.expects(message)
        if message.place.kind == "group" and not belongs_to_the_bot:
            self._overhear(message)
        elif self._gateway.commands.overtakes(message.text):
            await self._bring_in(message)
        else:
            self._joining.add(message)

    def _overhear(self, message: ChatMessage) -> None:
        if known := self._recent.get(message):
            known.overheard = True
        self._overhearing.add(message.place, Overheard(message.author.name, message.text))

    def _stand_in_line(self, message: ChatMessage) -> None:
        if message.place.kind == "group" and not message.addressed:
            self._overhear(message)
            return
        key = (message.place, message.id)
        if self._lines.put(message.place, lambda: self._bring_in(message)):
            self._in_line[key] = message
            self._flooded.discard(message.place)
        elif message.place not in self._flooded:
            log.warning("chat.flooded", platform=self._port.platform, author=message.author.id)
            self._flooded.add(message.place)
            self._lines.put(("flooded", message.place), partial(self._refuse, message))

    async def _refuse(self, message: ChatMessage) -> None:
        await self._followers.tell(message.place, _TOO_MANY, reply_to=message.id)

    async def _bring_in(self, message: ChatMessage) -> None:
        """Whoever wrote it learns of a store that is full or a Hermes that is stopping."""
        trouble = ""
        try:
            await self._hand_over(message)
        except HermesError as error:
            log.warning("chat.not_taken", platform=self._port.platform, error=type(error).__name__)
            trouble = f"⚠ {error}"
        except Exception as error:  # noqa: BLE001 - a bug must not lose a message without a word
            await asyncio.to_thread(log.error, "chat.message_failed", exc_info=error)
            trouble = _OUR_FAULT
        self._in_line.pop((message.place, message.id), None)
        if trouble:
            await self._followers.tell(message.place, trouble, reply_to=message.id)

    async def _hand_over(self, message: ChatMessage) -> None:
        scope = self._scope(message.place, message.author)
        conversation = await self._gateway.store.open_conversation(self._address(message), person=scope)
        if await self.stored(message.place, [message.id]):
            return  # delivered again, after a restart
        inbound = await self._as_inbound(message, conversation)
        known = self._recent.get(message)
        if known and inbound.text == as_read(message, ()) and not inbound.parts:
            known.conversation_id, known.inbound = conversation.id, inbound
        self._followers.follow(conversation.id, message.place)
        self._followers.answering(inbound.id, message.id)
        await self._gateway.receive(inbound, conversation)

    async def _as_inbound(self, message: ChatMessage, conversation: Conversation) -> InboundMessage:
        inbound = InboundMessage(
            conversation.address,
            conversation.person,
            message.text,
            id=self._message_id(message.place, message.id),
            author=self._person_key(message.author),
            is_admin=self._gate.is_admin(message.author.id),
            may_approve=self._gate.may_approve(message.author.id, message.place),
            group=message.place.group_id,
            still_allowed=self._still_allowed(message),
        )
        if is_command(message.text):
            return inbound
        workspace = self._gateway.workspace(conversation.id)
        taken = await self._media.take_in(message.attachments, conversation, workspace)
        around = [
            *self._overhearing.take(message.place, conversation.id),
            *self._changes.take(conversation.address),
        ]
        text = as_read(message, around, taken.paragraphs)
        parts = ({"type": "text", "text": text}, *taken.images) if taken.images else ()
        return replace(inbound, text=text, parts=parts)

    def _still_allowed(self, message: ChatMessage) -> Callable[[], Awaitable[bool]]:
        async def still_allowed() -> bool:
            return await self._gate.verdict(message.author, message.place) == "yes"

        return still_allowed

    def _message_id(self, place: Place, message_id: str) -> str:
        """The same whenever it is delivered, so that a message is stored once."""
        return id_from("msg", self._port.platform, place.chat_id, place.thread_id, message_id)

    def _address(self, message: ChatMessage) -> Address:
        place = message.place
        user_id = message.author.id if place.kind == "group" and self._per_person else ""
        return Address(self._port.platform, place.chat_id, place.thread_id, user_id)

    def _scope(self, place: Place, author: Author) -> str:
        """Whose memory and searches these are. What somebody said in private must not come up in a group, nor what was
        said in one channel or thread in another, which others can read."""
        if place.kind == "direct":
            return self._person_key(author)
        where = f"{self._service}:group:{place.chat_id}"
        where += f":{place.thread_id}" if place.thread_id else ""
        return f"{where}:by:{author.id}" if self._per_person else where

    def _person_key(self, author: Author) -> str:
        return f"{self._service}:{author.id}"

    @property
    def _service(self) -> str:
        """Several bots of one service know the same people by the same numbers."""
        return self._port.platform.partition("/")[0]
