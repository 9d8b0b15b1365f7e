"""Where every chat message comes in: who may speak, what belongs together, what the model gets to read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import structlog

from agent.errors import HermesError, StoreError
from agent.models.budget import spending_for
from agent.store import Address, Conversation
from gateway.access.gate import Gate
from gateway.access.pairing import Pairing
from gateway.chat.adapter import ChatPort
from gateway.chat.callbacks import Buttons, PairingPrompt
from gateway.chat.delivery.manager import DeliveryManager
from gateway.chat.errors import DeliveryError
from gateway.chat.group_context import GroupContext, Overheard, as_read
from gateway.chat.keyed_queue import KeyedQueue
from gateway.chat.message_joiner import MessageJoiner
from gateway.chat.recent_messages import RecentMessages
from gateway.commands import is_command
from gateway.config.schema_platforms import BotConfig
from gateway.core.gateway import Gateway
from gateway.core.inbox_codec import decode, encode, inbox_id
from gateway.core.parked import ResumeResult
from gateway.core.retry import retry_store
from gateway.errors import QueueFull
from gateway.media.attachments import AttachmentReader
from gateway.store.ports import InboxMessage, OutboxItem, QueueLimits
from gateway.types import Author, ChatMessage, InboundMessage, Place, Press

log = structlog.get_logger(__name__)

_CLOSING_SECONDS = 5.0
_MOST_CHANGES = 20
_MOST_PLACES = 1_000
_OUR_FAULT = "⚠ Something went wrong inside Hermes, and your message was not answered; the log says more."
_NOT_KEPT = (
    "⚠ Hermes cannot store your message at the moment. It is taken as soon as that is mended; there is no need to send "
    "it again."
)


class ChatReceiver:
    """The `ChatDesk` of one bot."""

    def __init__(
        self,
        gateway: Gateway,
        port: ChatPort,
        gate: Gate,
        pairing: Pairing,
        media: AttachmentReader,
        settings: BotConfig,
        *,
        join_seconds: float,
        closing_seconds: float = _CLOSING_SECONDS,
    ) -> None:
        self._gateway = gateway
        self._closing_seconds = closing_seconds
        self._inbox = gateway.store.inbox
        self._port = port
        self._gate = gate
        self._media = media
        self._per_person = settings.groups == "per_person"
        self._delivery = DeliveryManager(
            gateway.hub,
            port,
            gateway.store.outbox,
            streaming=settings.streaming,
            observer=gateway.observer,
        )
        self._introduction = PairingPrompt(port, pairing, self._delivery, settings.admins)
        self._buttons = Buttons(gateway, port, gate, pairing, self._delivery)
        self._recent = RecentMessages()
        self._overhearing = GroupContext(settings.group_context)
        self._changes = GroupContext(_MOST_CHANGES)
        """Edits of messages the model has already read, by conversation."""
        self._lines = KeyedQueue()
        self._refused: set[tuple[Place, str]] = set()
        """Where somebody was told why a message cannot be taken."""
        self._joining = MessageJoiner(join_seconds, self._stand_in_line)
        self.is_open = self._has_recovered_replies = False
        gateway.bots[port.platform] = self

    def apply(self, settings: BotConfig, *, join_seconds: float) -> None:
        """What may change while it runs."""
        self._gate.apply(settings)
        self._introduction.admins = settings.admins
        self._delivery.set_streaming(settings.streaming)
        self._overhearing.keep(settings.group_context)
        self._joining.seconds = join_seconds

    async def open(self) -> float:
        if not self.is_open:
            async with self._gateway.taking_up:
                await self._recover()
                self.is_open = True
        return await self._inbox.first_seen_at(self._port.platform)

    async def message(self, message: ChatMessage) -> bool:
        verdict = await self._gate.verdict(message.author, message.place)
        if verdict == "stranger":
            self._lines.put(("stranger", message.place), partial(self._introduction.of, message))
        elif verdict == "no":
            about = {"author": message.author.id, "group": message.place.group_id}
            log.info("chat.refused", platform=self._port.platform, **about)
        elif self._recent.get(message) is None and self._is_within_limits(message):
            self._recent.add(message)
            try:
                await self._take(message)
            except StoreError:
                self._recent.forget(message)
                self._gateway.limits.give_back(self._person_key(message.author))
                self._refuse(message, "store", _NOT_KEPT)
                raise
        return verdict == "yes"

    async def edited(self, message: ChatMessage) -> None:
        """What still waits is replaced. What was read is not answered again: the model learns of the change with the
        next message."""
        known = self._recent.get(message)
        if known is None or known.text == message.text:
            return
        if await self._gate.verdict(message.author, message.place) != "yes":
            return
        if known.overheard:
            if message.addressed and self._is_within_limits(message):
                await self._take(message)
                known.overheard = False
            known.text = message.text
            return
        await self._inbox.replace_payload(self._message_id(message.place, message.id), encode(message))
        known.text = message.text
        if self._joining.replace(message) or is_command(message.text):
            return
        changed = known.inbound and replace(known.inbound, text=as_read(message, ()))
        if changed is None or not self._gateway.replace_waiting(known.conversation_id, changed):
            remark = Overheard(message.author.name, f"(changed an earlier message to) {message.text}")
            self._changes.add(self._address(message), remark)

    async def pressed(self, press: Press) -> str:
        return await self._buttons.pressed(press, person=self._person_key(press.author))

    async def newest(self) -> dict[Place, str]:
        return await self._inbox.latest_ids(self._port.platform, limit=_MOST_PLACES)

    async def take_up(self, taken: InboxMessage, *, has_begun: bool) -> ResumeResult:
        """It may have come in this process, and is not seen twice then but another time."""
        with suppress(KeyError, TypeError, ValueError):
            self._recent.forget(decode(taken.payload, self._port.fetch))
        return await self._take_up(taken, has_begun=has_begun)

    def bring(self, outgoing: OutboxItem) -> None:
        self._delivery.deliver(outgoing)

    def follow(self, conversation_id: str, place: Place) -> None:
        self._delivery.follow(conversation_id, place)

    async def tell(self, user_id: str, sentence: str) -> bool:
        try:
            place = await self._port.direct(user_id)
        except DeliveryError:
            return False
        return await self._delivery.send_notice(place, sentence) is not None

    async def close(self) -> None:
        """What was taken and has not had its turn is in the inbox."""
        self._joining.close()
        await self._lines.close(self._closing_seconds)
        await self._delivery.close()

    async def _recover(self) -> None:
        """Does again only what it has not done, should it be called once more because the store refused."""
        left = await self._gateway.left_waiting(self._port.platform)
        if not self._has_recovered_replies:
            await self._delivery.recover()
            self._has_recovered_replies = True
        for taken, has_begun in left:
            await self._take_up(taken, has_begun=has_begun)

    async def _take_up(self, taken: InboxMessage, *, has_begun: bool) -> ResumeResult:
        """A message that was left at the last stop."""
        try:
            message = decode(taken.payload, self._port.fetch)
            if self._message_id(message.place, message.id) != taken.id:
                raise ValueError("It is another message: this one would never be settled.")
        except (KeyError, TypeError, ValueError):
            log.error("chat.unreadable", platform=self._port.platform, message=taken.id)
            await self._inbox.park([taken.id], "it cannot be read any more")
            return "unreadable"
        if self._recent.get(message) is not None:
            return "yes"
        if await self._gate.verdict(message.author, message.place) != "yes":
            # Sent away meanwhile: no file of theirs is fetched, no command is carried out.
            log.info("chat.refused", platform=self._port.platform, author=message.author.id)
            await self._inbox.mark_done([taken.id])
            return "refused"
        log.info("chat.recovered", platform=self._port.platform, message=taken.id, has_begun=has_begun)
        self._recent.add(message)
        if has_begun:
            self._lines.put(message.place, partial(self._bring_in, message, has_begun=True))
        else:
            self._go_on(message)
        return "yes"

    def _is_within_limits(self, message: ChatMessage) -> bool:
        """Only what begins a turn counts. What people in a group say to each other does not, nor do the further parts
        of a paste; and `/stop` always gets through."""
        is_meant = message.place.kind == "direct" or message.addressed
        if not is_meant or self._joining.expects(message) or self._gateway.commands.overtakes(message.text):
            return True
        refusal = self._gateway.limits.refusal(self._person_key(message.author), message.written_at)
        if refusal is not None and refusal.is_first:
            log.warning("chat.too_often", platform=self._port.platform, author=message.author.id)
            tell = partial(self._delivery.send_notice, message.place, f"⚠ {refusal}", reply_to=message.id)
            self._lines.put(("refusing", message.place), tell)
        return refusal is None

    async def _take(self, message: ChatMessage) -> None:
        """Kept first, so that it may be acknowledged. What comes after that can be done again."""
        belongs_to_the_bot = message.addressed or message.album or self._joining.expects(message)
        if message.place.kind == "group" and not belongs_to_the_bot:
            self._overhear(message)
            return
        message_id = self._message_id(message.place, message.id)
        payload = encode(message)
        # What overtakes stands before older messages that are not kept yet, so it says nothing about what was missed.
        number = "" if self._gateway.commands.overtakes(message.text) else message.id
        taken = InboxMessage(message_id, self._port.platform, payload, message.place, number)
        try:
            is_new = await self._inbox.add(taken, limits=self._room_for(message))
        except QueueFull as error:
            log.warning("chat.flooded", platform=self._port.platform, author=message.author.id)
            self._refuse(message, "flood", f"⚠ {error}")
            return
        self._refused -= {(message.place, "store"), (message.place, "flood")}
        if is_new:
            self._go_on(message)

    def _room_for(self, message: ChatMessage) -> QueueLimits | None:
        """Half a paste is worth nothing, and `/stop` is what helps against a long line."""
        if self._joining.expects(message) or self._gateway.commands.overtakes(message.text):
            return None
        return self._gateway.limits.room

    def _go_on(self, message: ChatMessage) -> None:
        if self._gateway.commands.overtakes(message.text):
            self._lines.put(("overtaking", message.place), partial(self._bring_in, message))
        else:
            self._joining.add(message)

    def _overhear(self, message: ChatMessage) -> None:
        if known := self._recent.get(message):
            known.overheard = True
        self._overhearing.add(message.place, Overheard(message.author.name, message.text))

    def _stand_in_line(self, message: ChatMessage) -> None:
        if message.place.kind == "group" and not message.addressed:
            self._overhear(message)
            self._lines.put(message.place, partial(self._settle, message))
        else:
            self._lines.put(message.place, partial(self._bring_in, message))

    def _refuse(self, message: ChatMessage, why: str, sentence: str) -> None:
        """Once, until something is taken there again: nobody needs to read it for each message."""
        if (message.place, why) not in self._refused:
            self._refused.add((message.place, why))
            tell = partial(self._delivery.send_notice, message.place, sentence, reply_to=message.id)
            self._lines.put(("refusing", message.place), tell)

    async def _bring_in(self, message: ChatMessage, *, has_begun: bool = False) -> None:
        """It is kept, so a store that refuses is waited for, and with it whatever stands behind."""
        try:
            await retry_store(partial(self._hand_over, message, has_begun=has_begun))
        except HermesError as error:
            log.warning("chat.not_taken", platform=self._port.platform, error=type(error).__name__)
            await self._delivery.send_notice(message.place, f"⚠ {error}", reply_to=message.id)
            await self._settle(message)
        except Exception as error:  # noqa: BLE001 - a bug must not lose a message without a word
            await asyncio.to_thread(log.error, "chat.message_failed", exc_info=error)
            await self._delivery.send_notice(message.place, _OUR_FAULT, reply_to=message.id)
            await self._inbox.park(self._all_ids(message), "it could not be read")

    async def _settle(self, message: ChatMessage) -> None:
        await self._inbox.mark_done(self._all_ids(message))

    async def _hand_over(self, message: ChatMessage, *, has_begun: bool) -> None:
        scope = self._scope(message.place, message.author)
        conversation = await self._gateway.store.sessions.open_conversation(
            self._address(message), person=scope
        )
        if has_begun:
            inbound = replace(self._inbound(message, conversation), has_begun=True)
        else:
            inbound = await self._with_all_around(message, conversation)
        known = self._recent.get(message)
        if known and inbound.text == as_read(message, ()) and not inbound.parts:
            known.conversation_id, known.inbound = conversation.id, inbound
        self._delivery.follow(conversation.id, message.place)
        self._delivery.map_reply(inbound.id, message.id)
        await self._gateway.receive(inbound, conversation)

    def _inbound(self, message: ChatMessage, conversation: Conversation) -> InboundMessage:
        return InboundMessage(
            conversation.address,
            conversation.person,
            message.text,
            id=self._message_id(message.place, message.id),
            author=self._person_key(message.author),
            is_admin=self._gate.is_admin(message.author.id),
            may_approve=self._gate.may_approve(message.author.id, message.place),
            group=message.place.group_id,
            joined=tuple(self._further_ids(message)),
            is_taken=True,
            still_allowed=self._still_allowed(message),
        )

    async def _with_all_around(self, message: ChatMessage, conversation: Conversation) -> InboundMessage:
        inbound = self._inbound(message, conversation)
        if is_command(message.text):
            return inbound
        workspace = self._gateway.workspace(conversation.id)
        with spending_for(inbound.by):
            taken = await self._media.read(message.attachments, conversation, workspace)
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
        return inbox_id(self._port.platform, place, message_id)

    def _all_ids(self, message: ChatMessage) -> list[str]:
        return [self._message_id(message.place, message.id), *self._further_ids(message)]

    def _further_ids(self, message: ChatMessage) -> list[str]:
        return [self._message_id(message.place, part) for part in message.further_parts]

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
