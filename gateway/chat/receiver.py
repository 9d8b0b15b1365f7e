"""Receives the messages of one chat bot: checks access and limits, persists, joins, queues."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial

import structlog

from agent.aio import keyed_lock
from agent.errors import HermesError, StoreError
from agent.llm.guards import spending_for
from agent.store import Conversation
from gateway.access import Gate, Pairing
from gateway.chat.adapter import ChatPort
from gateway.chat.callbacks import Callbacks
from gateway.chat.delivery.manager import DeliveryManager
from gateway.chat.errors import DeliveryError
from gateway.chat.group_context import GroupContext, Remark, render_for_model
from gateway.chat.keyed_queue import KeyedQueue, finish_or_cancel
from gateway.chat.message_joiner import JoinedMessage, MessageJoiner, RecentMessages
from gateway.config.schema_platforms import BotConfig
from gateway.core.conversation_queue import QueueEntry
from gateway.core.gateway import UNREADABLE, Gateway
from gateway.core.inbox_codec import BotAddresses, decode, encode, is_command_row
from gateway.core.parked import ResumeResult
from gateway.core.retry import Crash, guarded, retry_store
from gateway.errors import QueueFull
from gateway.media.attachments import AttachmentReader
from gateway.store.ports import InboxMessage, OutboxItem
from gateway.types import ChatMessage, InboundMessage, Origin, Place, Press

log = structlog.get_logger(__name__)

_CLOSING_SECONDS = 5.0
_MAX_EDIT_REMARKS = 20
_MAX_PLACES = 1_000
_CRASHED = "⚠ Something went wrong inside Hermes, and your message was not answered; the log says more."
_NOT_STORED = (
    "⚠ Hermes cannot store your message at the moment. It is accepted once the store works again; do not send it "
    "again."
)


class ChatReceiver:
    """The `InboundHandler` of one bot."""

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
        self._addresses = BotAddresses(port.platform, per_person=settings.groups == "per_person")
        self._delivery = DeliveryManager(
            gateway.hub,
            port,
            gateway.store.outbox,
            streaming=settings.streaming,
            observer=gateway.observer,
        )
        self._callbacks = Callbacks(gateway, port, gate, pairing, self._delivery)
        self._recent = RecentMessages()
        self._context = GroupContext(settings.group_context)
        self._edits = GroupContext(_MAX_EDIT_REMARKS)
        """Edits of messages that the model has read, by address."""
        self._notices = KeyedQueue()
        self._refused_places: set[tuple[Place, str]] = set()
        """The places that have been notified that messages are not accepted, with the reason."""
        self._joiner = MessageJoiner(join_seconds)
        self._tasks: set[asyncio.Task[None]] = set()
        """One for each persisted message that is not queued completely yet."""
        self.is_open = self._has_recovered_replies = False

    def apply(self, settings: BotConfig, *, join_seconds: float) -> None:
        """Use other settings from now on."""
        self._gate.apply(settings)
        self._delivery.set_streaming(settings.streaming)
        self._context.resize(settings.group_context)
        self._joiner.seconds = join_seconds

    # -- gateway.chat.adapter.InboundHandler -----------------------------------------------------------------

    async def open(self) -> float:
        if not self.is_open:
            async with self._gateway.recovery_lock:
                await self._recover()
                self.is_open = True
        return await self._inbox.first_seen_at(self._port.platform)

    async def message(self, message: ChatMessage) -> bool:
        verdict = await self._gate.verdict(message.author, message.place)
        if verdict == "stranger":
            self._notices.put(("stranger", message.place), partial(self._callbacks.send_code, message))
        elif verdict == "no":
            about = {"author": message.author.id, "group": message.place.group_id}
            log.info("chat.refused", platform=self._port.platform, **about)
        elif self._recent.get(message) is None and self._is_within_limits(message):
            self._recent.add(message)
            try:
                await self._persist(message)
            except StoreError:
                self._recent.forget(message)
                self._gateway.limits.refund(self._addresses.person_key(message.author))
                self._refuse(message, "store", _NOT_STORED)
                raise
        return verdict == "yes"

    async def edited(self, message: ChatMessage) -> None:
        """Replace a message that still waits. If the model has read it, report the edit with the next message."""
        known = self._recent.get(message)
        if known is None or known.text == message.text:
            return
        if await self._gate.verdict(message.author, message.place) != "yes":
            return
        if known.is_remark:
            if message.addressed and self._is_within_limits(message):
                await self._persist(message)
                known.is_remark = False
            known.text = message.text
            return
        await self._inbox.replace_payload(self._addresses.message_ids(message)[0], encode(message))
        known.text = message.text
        if self._joiner.replace(message) or message.command:
            return
        edited = known.inbound and replace(known.inbound, text=render_for_model(message, ()))
        if edited is None or not self._gateway.replace_queued(known.conversation_id, edited):
            remark = Remark(message.author.name, f"(changed an earlier message to) {message.text}")
            self._edits.add(self._addresses.address(message), remark)

    async def pressed(self, press: Press) -> str:
        return await self._callbacks.pressed(press, person=self._addresses.person_key(press.author))

    async def newest(self) -> dict[Place, str]:
        return await self._inbox.latest_ids(self._port.platform, limit=_MAX_PLACES)

    async def close(self) -> None:
        """Finish work that takes few seconds. Messages without a turn stay in the inbox."""
        self._joiner.close()
        await self._notices.close(self._closing_seconds)
        await finish_or_cancel(self._tasks, self._closing_seconds)
        await self._delivery.close()

    # -- gateway.core.parked.RunningBot ----------------------------------------------------------------------

    async def resume(self, row: InboxMessage, *, is_resumed: bool) -> ResumeResult:
        # This process may have received the message before it was parked.
        with suppress(KeyError, TypeError, ValueError):
            self._recent.forget(decode(row.payload, self._port.fetch))
        return await self._resume(row, is_resumed=is_resumed)

    def deliver(self, item: OutboxItem) -> None:
        self._delivery.deliver(item)

    def follow(self, conversation_id: str, place: Place) -> None:
        self._delivery.follow(conversation_id, place)

    async def send_notice(self, user_id: str, text: str) -> bool:
        try:
            place = await self._port.direct(user_id)
        except DeliveryError:
            return False
        return await self._delivery.send_notice(place, text) is not None

    # -- recovery --------------------------------------------------------------------------------------------

    async def _recover(self) -> None:
        """Resume the work of an earlier process. May be called again after a store error: no step runs twice."""
        unfinished = await self._gateway.unfinished(self._port.platform)
        if not self._has_recovered_replies:
            await self._delivery.recover()
            self._has_recovered_replies = True
        for row, is_resumed in unfinished:
            await self._resume(row, is_resumed=is_resumed)

    async def _resume(self, row: InboxMessage, *, is_resumed: bool) -> ResumeResult:
        if is_command_row(row):
            is_readable = await self._gateway.resume(row, is_resumed=is_resumed)
            return "resumed" if is_readable else "unreadable"
        try:
            message = decode(row.payload, self._port.fetch)
            if self._addresses.message_ids(message) != [row.id]:
                raise ValueError("The row has another message's id, so it would never be marked done.")
        except (KeyError, TypeError, ValueError):
            log.error("chat.unreadable", platform=self._port.platform, message=row.id)
            await self._inbox.park([row.id], UNREADABLE)
            return "unreadable"
        if self._recent.get(message) is not None:
            return "resumed"
        if await self._gate.verdict(message.author, message.place) != "yes":
            # The author has lost access: fetch no file of theirs, run no command.
            log.info("chat.refused", platform=self._port.platform, author=message.author.id)
            await self._inbox.mark_done([row.id])
            return "refused"
        log.info("chat.recovered", platform=self._port.platform, message=row.id, has_begun=is_resumed)
        self._recent.add(message)
        self._dispatch(message, await self._conversation(message), is_resumed=is_resumed)
        return "resumed"

    # -- accepting a message ---------------------------------------------------------------------------------

    def _is_within_limits(self, message: ChatMessage) -> bool:
        """Count a message that begins a turn. Talk between people in a group, further parts of a paste and `/stop` do
        not count."""
        is_meant = message.place.kind == "direct" or message.addressed
        if not is_meant or self._is_unlimited(message):
            return True
        refusal = self._gateway.limits.refusal(self._addresses.person_key(message.author), message.written_at)
        if refusal is not None and refusal.is_first:
            log.warning("chat.too_often", platform=self._port.platform, author=message.author.id)
            self._reply(message, f"⚠ {refusal}")
        return refusal is None

    async def _persist(self, message: ChatMessage) -> None:
        """Add the message to the inbox, so that the adapter may acknowledge it. All later steps can be repeated."""
        is_for_bot = message.addressed or message.album or self._joiner.continues(message)
        if message.place.kind == "group" and not is_for_bot:
            self._record_context(message)
            return
        (message_id,) = self._addresses.message_ids(message)
        # A command that overtakes may come before older messages: its number does not show which ones were missed.
        number = "" if self._overtakes(message) else message.id
        row = InboxMessage(message_id, self._port.platform, encode(message), message.place, number)
        limits = None if self._is_unlimited(message) else self._gateway.limits.queue_limits
        conversation = await self._conversation(message)
        try:
            is_new = await self._inbox.add(row, limits=limits)
        except QueueFull as error:
            log.warning("chat.flooded", platform=self._port.platform, author=message.author.id)
            self._refuse(message, "flood", f"⚠ {error}")
            return
        self._refused_places -= {(message.place, "store"), (message.place, "flood")}
        if is_new:
            self._dispatch(message, conversation)

    async def _conversation(self, message: ChatMessage) -> Conversation | None:
        """Open the conversation. None for a message of a group that may turn out not to be for the bot."""
        is_for_bot = message.place.kind == "direct" or message.addressed
        return await self._open_conversation(message) if is_for_bot else None

    async def _open_conversation(self, message: ChatMessage) -> Conversation:
        scope = self._addresses.scope(message.place, message.author)
        return await self._gateway.store.sessions.open_conversation(
            self._addresses.address(message), person=scope
        )

    def _is_unlimited(self, message: ChatMessage) -> bool:
        """A paste is accepted whole or not at all, and a command that runs at once is always accepted."""
        return self._joiner.continues(message) or self._overtakes(message)

    def _overtakes(self, message: ChatMessage) -> bool:
        return self._gateway.commands.overtakes(message.command)

    def _record_context(self, message: ChatMessage) -> None:
        """Remember a message between people in a group."""
        if known := self._recent.get(message):
            known.is_remark = True
        self._context.add(message.place, Remark(message.author.name, message.text))

    def _refuse(self, message: ChatMessage, reason: str, text: str) -> None:
        """Tell a place why messages are not accepted, once until a message is accepted there again."""
        if (message.place, reason) not in self._refused_places:
            self._refused_places.add((message.place, reason))
            self._reply(message, text)

    def _reply(self, message: ChatMessage, text: str) -> None:
        send = partial(self._delivery.send_notice, message.place, text, reply_to=message.id)
        self._notices.put(("notice", message.place), send)

    # -- from the inbox to the conversation's queue ----------------------------------------------------------

    def _dispatch(
        self, message: ChatMessage, conversation: Conversation | None, *, is_resumed: bool = False
    ) -> None:
        """Run a command that overtakes. Join any other message, or reserve its position in the queue and fill it in a
        task of its own."""
        if conversation is not None and not is_resumed and self._overtakes(message):
            run = self._submit(message, conversation, self._inbound(message, conversation))
            self._start(self._report_failure(message, run))
            return
        joined = JoinedMessage(message, is_whole=True) if is_resumed else self._joiner.add(message)
        if joined is not None:
            entry = self._reserve(joined, conversation) if conversation else None
            self._start(self._process(joined, conversation, entry, is_resumed=is_resumed))

    def _reserve(self, joined: JoinedMessage, conversation: Conversation) -> QueueEntry:
        sender = self._addresses.person_key(joined.parts[0].author)
        return self._gateway.reserve(conversation.id, sender, joined.is_due)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _process(
        self,
        joined: JoinedMessage,
        conversation: Conversation | None,
        entry: QueueEntry | None,
        *,
        is_resumed: bool,
    ) -> None:
        message = await joined.whole()
        accept = self._accept(message, joined, conversation, entry, is_resumed=is_resumed)
        await self._report_failure(message, accept)

    async def _accept(
        self,
        message: ChatMessage,
        joined: JoinedMessage,
        conversation: Conversation | None,
        entry: QueueEntry | None,
        *,
        is_resumed: bool,
    ) -> None:
        if message.place.kind == "group" and not message.addressed:
            if entry is not None:  # it was addressed when it was reserved, and was edited since
                entry.drop()
            self._record_context(message)
            await self._mark_done(message)
            return
        if conversation is None or entry is None:
            conversation = await retry_store(partial(self._open_conversation, message))
            entry = self._reserve(joined, conversation)
        try:
            inbound = await self._build_inbound(message, conversation, is_resumed=is_resumed)
            known = self._recent.get(message)
            if known and inbound.text == render_for_model(message, ()) and not inbound.parts:
                known.conversation_id, known.inbound = conversation.id, inbound
            await self._submit(message, conversation, inbound, entry)
        finally:
            if entry.message is None:
                entry.drop()

    async def _submit(
        self,
        message: ChatMessage,
        conversation: Conversation,
        inbound: InboundMessage,
        entry: QueueEntry | None = None,
    ) -> None:
        self._delivery.follow(conversation.id, message.place)
        self._delivery.map_reply(inbound.id, message.id)
        await self._gateway.submit(inbound, conversation, entry)

    async def _report_failure(self, message: ChatMessage, work: Awaitable[None]) -> None:
        """Run the work. If it fails, notify the author, and mark the message done or park it."""
        try:
            if not isinstance(await guarded(lambda: work, "chat.message_failed"), Crash):
                return
        except HermesError as error:
            log.warning("chat.not_accepted", platform=self._port.platform, error=type(error).__name__)
            await self._delivery.send_notice(message.place, f"⚠ {error}", reply_to=message.id)
            await self._mark_done(message)
        else:
            await self._delivery.send_notice(message.place, _CRASHED, reply_to=message.id)
            ids = self._addresses.message_ids(message)
            await retry_store(partial(self._inbox.park, ids, "it could not be read"))

    async def _mark_done(self, message: ChatMessage) -> None:
        await retry_store(partial(self._inbox.mark_done, self._addresses.message_ids(message)))

    def _inbound(self, message: ChatMessage, conversation: Conversation) -> InboundMessage:
        message_id, *merged_ids = self._addresses.message_ids(message)
        return InboundMessage(
            conversation.address,
            conversation.person,
            message.text,
            id=message_id,
            command=message.command,
            author=self._addresses.person_key(message.author),
            is_admin=self._gate.is_admin(message.author.id),
            may_approve=self._gate.may_approve(message.author.id, message.place),
            group=message.place.group_id,
            merged_ids=tuple(merged_ids),
            origin=Origin(message.author, message.place),
        )

    async def _build_inbound(
        self, message: ChatMessage, conversation: Conversation, *, is_resumed: bool
    ) -> InboundMessage:
        """Add the attachments, and the remarks in the group before the message."""
        inbound = self._inbound(message, conversation)
        if is_resumed:
            return replace(inbound, is_resumed=True)
        if message.command is not None:
            return inbound
        remarks = [
            *self._context.take(message.place, conversation.id),
            *self._edits.take(conversation.address),
        ]
        if not message.attachments:
            return replace(inbound, text=render_for_model(message, remarks))
        workspace = self._gateway.workspace(conversation.id)
        read = partial(self._media.read, message.attachments, conversation, workspace)
        with spending_for(inbound.sender):
            async with keyed_lock(f"attachments {conversation.id}"):
                files = await retry_store(read)
        text = render_for_model(message, remarks, files.paragraphs)
        parts = ({"type": "text", "text": text}, *files.images) if files.images else ()
        return replace(inbound, text=text, parts=parts)
