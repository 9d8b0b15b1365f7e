"""Where every chat message comes in: who may speak, what belongs together, what the model gets to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import structlog

from agent.errors import HermesError
from agent.messages import ChatDict
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
        self._lines = Lines()
        self._joining = Joining(join_seconds, self._in_line)

    async def message(self, message: ChatMessage) -> None:
        match await self._gate.verdict(message.author, message.place):
            case "stranger":
                await self._introduction.of(message)
            case "no":
                log.info("chat.refused", platform=self._port.platform, author=message.author.id)
            case "yes" if self._recent.add(message):
                self._take(message)

    async def edited(self, message: ChatMessage) -> None:
        """What still waits is replaced. What was answered is not answered again: the model learns of the change with
        the next message."""
        known = self._recent.get(message)
        if known is None or known.text == message.text:
            return
        if await self._gate.verdict(message.author, message.place) != "yes":
            return
        known.text = message.text
        if self._joining.replace(message):
            return
        if known.inbound is None:
            if message.addressed:
                self._take(message)
            return
        changed = replace(known.inbound, text=as_read(message, ()))
        if not self._gateway.replace_waiting(known.conversation_id, changed):
            self._overhearing.add(
                message.place,
                Overheard(message.author.name, f"(changed an earlier message to) {message.text}"),
            )

    async def pressed(self, press: Press) -> str:
        return await self._buttons.pressed(press, person=self._person_key(press.author))

    async def close(self) -> None:
        self._joining.flush_all()
        await self._lines.close(_CLOSING_SECONDS)
        await self._followers.close()

    def _take(self, message: ChatMessage) -> None:
        if message.place.kind == "group" and not message.addressed and not message.album:
            self._overhearing.add(message.place, Overheard(message.author.name, message.text))
        elif self._gateway.commands.overtakes(message.text):
            self._lines.put(message.id, lambda: self._bring_in(message))
        else:
            self._joining.add(message)

    def _in_line(self, message: ChatMessage) -> None:
        if message.addressed or message.place.kind == "direct":
            self._lines.put(message.place, lambda: self._bring_in(message))
        else:
            self._overhearing.add(message.place, Overheard(message.author.name, message.text))

    async def _bring_in(self, message: ChatMessage) -> None:
        """Whoever wrote it learns of a store that is full or a Hermes that is stopping."""
        try:
            await self._hand_over(message)
        except HermesError as error:
            log.warning("chat.not_taken", platform=self._port.platform, error=type(error).__name__)
            await self._followers.tell(message.place, f"⚠ {error}", reply_to=message.id)

    async def _hand_over(self, message: ChatMessage) -> None:
        conversation = await self._conversation(message)
        inbound = await self._as_inbound(message, conversation)
        if known := self._recent.get(message):
            known.conversation_id, known.inbound = conversation.id, inbound
        self._followers.follow(conversation.id, message.place)
        self._followers.answering(inbound.id, message.id)
        await self._gateway.receive(inbound)

    async def _conversation(self, message: ChatMessage) -> Conversation:
        place = message.place
        user_id = message.author.id if place.kind == "group" and self._per_person else ""
        address = Address(self._port.platform, place.chat_id, place.thread_id, user_id)
        return await self._gateway.store.open_conversation(address, person=self._scope(place, message.author))

    async def _as_inbound(self, message: ChatMessage, conversation: Conversation) -> InboundMessage:
        parts: Sequence[ChatDict] = ()
        text = message.text
        if not is_command(text):
            taken = await self._media.take_in(
                message.attachments, conversation, self._gateway.workspace(conversation.id)
            )
            text = as_read(message, self._overhearing.take(message.place), taken.paragraphs)
            parts = [{"type": "text", "text": text}, *taken.images] if taken.images else ()
        return InboundMessage(
            conversation.address,
            conversation.person,
            text,
            author=self._person_key(message.author),
            is_admin=self._gate.is_admin(message.author.id),
            parts=tuple(parts),
        )

    def _scope(self, place: Place, author: Author) -> str:
        """Whose memory and searches these are. What somebody said in private must not come up in a group."""
        if place.kind == "direct":
            return self._person_key(author)
        group = f"{self._service}:group:{place.group_id or place.chat_id}"
        return f"{group}:{author.id}" if self._per_person else group

    def _person_key(self, author: Author) -> str:
        return f"{self._service}:{author.id}"

    @property
    def _service(self) -> str:
        """Several bots of one service know the same people by the same numbers."""
        return self._port.platform.partition("/")[0]
