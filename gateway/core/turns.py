"""Handles one message to its end: runs a command or a turn of the agent, retries, and settles the inbox row."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import aclosing, suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Literal

import structlog

from agent.aio import finish_despite_cancel, keyed_lock
from agent.context.live import LiveContext
from agent.errors import HermesError, LeaseLost, StoreError
from agent.events import FileSent, Notice, TextDelta, TurnDone, TurnEvent, TurnFailed, TurnStarted
from agent.ids import new_id
from agent.llm.guards import spending_for
from agent.loop import Arrived, Turn
from agent.messages import Message
from agent.store import Conversation
from agent.tool import Approve
from gateway.commands.registry import Again, CommandContext
from gateway.core.conversation_queue import ConversationQueue, LeaseHolder
from gateway.core.retry import MAX_ATTEMPTS, TRANSIENT_STORE_ERRORS, Crash, Suspects, guarded, retry_store
from gateway.core.session_policy import compact_if_oversized, reset_if_due
from gateway.store.ports import Fence, TurnStore, file_content
from gateway.types import CommandCall, InboundMessage

if TYPE_CHECKING:
    from gateway.core.gateway import Gateway

log = structlog.get_logger(__name__)

Busy = Literal["queue", "steer", "interrupt"]

MAX_CRASHES = 3
"""Crashes of one message's turn in one process, after which the message is parked."""

_STOP_ANSWER_TIMEOUT = 5.0
_STORE_RETRY_DELAYS = (0.5, 15.0)
"""Seconds before a turn that a store error ended is retried. Each retry may cost a model call."""
_STORE_UNAVAILABLE = (
    "⚠ Hermes cannot store anything at the moment. Your message is kept and will be answered once the store works "
    "again; do not send it again."
)
_RESUMES_LATER = "Hermes is stopping. It continues this answer after the next start."
_PARKED = (
    "Something in Hermes broke down over this message. The message is kept but not retried automatically; `hermes "
    "doctor` and the log say more."
)
_RETRY_HINT = " `/retry` asks again."
_MAY_BE_INCOMPLETE = " Any answer you can see to it is not complete."
_CRASH_REASON = "Hermes broke down over it"
_NEEDS_TURN = "This command cannot run while an answer is being written."
_COMMAND_CRASHED = "⚠ Something in Hermes broke down over this command; the log says more."
_COMMAND_INTERRUPTED = (
    "Hermes was interrupted while it ran this command, so the command may or may not have taken effect. `/status` "
    "shows the current state."
)


class Turns:
    """Runs messages. Every way out marks the inbox row done or parks it, unless a later start resumes the message."""

    def __init__(self, gateway: Gateway, holder: LeaseHolder, *, suspect_delay: float) -> None:
        self._gateway = gateway
        self._agent = gateway.agent
        self._store: TurnStore = gateway.store
        self._settings = gateway.settings
        self._holder = holder
        self._publish = gateway.publish
        self.suspects = Suspects(suspect_delay)
        self._attempts: Counter[str] = Counter()
        """How often this process began the turn of each message that it works on."""

    async def handle(self, queue: ConversationQueue, inbound: InboundMessage) -> None:
        """Handle one message under the conversation's lease. No failure reaches the next message."""
        conversation_id = queue.conversation_id
        log_context = structlog.contextvars.bound_contextvars(conversation=conversation_id, turn=inbound.id)
        observed = self._gateway.observer.turn(conversation_id, inbound)
        with log_context, observed, spending_for(inbound.sender):
            has_lease = False
            try:
                async with self._holder.hold(conversation_id) as fence:
                    has_lease = True
                    await self._fenced(fence)._run(queue, inbound)
            except asyncio.CancelledError:
                if not has_lease:
                    await finish_despite_cancel(self._stop(queue, inbound))
            except HermesError as error:  # another process has the lease, or the turn could not begin
                log.warning("turn.left", error=type(error).__name__)
                self._publish(inbound, conversation_id, TurnFailed(str(error)))
            finally:
                self._attempts.pop(inbound.id, None)

    def _fenced(self, fence: Fence) -> Turns:
        """Return a copy whose writes are refused once another process holds the lease of the conversation."""
        turns = copy(self)
        turns._store = self._gateway.store.fenced(fence)
        turns._agent = self._agent.with_store(turns._store.sessions)
        return turns

    async def _run(self, queue: ConversationQueue, inbound: InboundMessage) -> None:
        try:
            async with self.suspects.isolated(inbound.id):
                await self._run_with_retries(queue, inbound)
        except asyncio.CancelledError:
            await finish_despite_cancel(self._stop(queue, inbound))
        except LeaseLost:
            raise
        except HermesError as error:
            log.warning("turn.failed", error=type(error).__name__)
            await finish_despite_cancel(self._fail(queue.conversation_id, inbound, str(error)))

    # -- commands --------------------------------------------------------------------------------------------

    async def run_immediately(self, conversation: Conversation, inbound: InboundMessage) -> str:
        """Run a command beside the running turn, once, and return its answer."""
        log_context = structlog.contextvars.bound_contextvars(conversation=conversation.id, turn=inbound.id)
        async with _immediate_lock(conversation.id):
            with log_context:
                try:
                    # A command that crashes must not stay in the inbox: each start would run it again.
                    answer = await guarded(
                        partial(self._command_answer, conversation, inbound), "command.crashed"
                    )
                except HermesError as error:
                    answer = f"⚠ {error}"
                if isinstance(answer, Crash):
                    answer = _COMMAND_CRASHED
                text = _NEEDS_TURN if isinstance(answer, Again) else answer
                await retry_store(partial(self._finish_with_notice, conversation.id, inbound, text))
                return text

    async def _run_command(self, conversation: Conversation, inbound: InboundMessage) -> Again | None:
        """Publish the command's answer, or return the message that the command sends to the model."""
        answer = await self._command_answer(conversation, inbound)
        if isinstance(answer, Again):
            self._publish(inbound, conversation.id, Notice(answer.notice))
            return answer
        await self._finish_with_notice(conversation.id, inbound, answer)
        return None

    async def _command_answer(self, conversation: Conversation, inbound: InboundMessage) -> str | Again:
        gateway = self._gateway
        context = CommandContext(
            conversation,
            self._store.sessions,
            self._agent,
            gateway.commands,
            gateway.stop_turn,
            author=inbound.sender,
            is_admin=inbound.is_by_admin,
            budget=gateway.limits.budget,
            group=inbound.group,
            restart_required=self._settings.restart_required,
            rejected=self._settings.rejected,
            notices=gateway.plugins.notices,
            unusable_engine=gateway.plugins.unusable_engine,
        )
        command = inbound.command or CommandCall("")
        return await gateway.commands.run(command, context)

    # -- turns -----------------------------------------------------------------------------------------------

    async def _run_with_retries(self, queue: ConversationQueue, inbound: InboundMessage) -> None:
        """Attempt the message until it is answered, or park it.

        A crash is retried unless a part of the answer was visible: people would see two answers. A store error is
        retried even then, because the unfinished text is retracted."""
        for tries in count(1):
            attempt = _Attempt(await retry_store(partial(self._store.inbox.start_attempt, inbound.id)))
            self._attempts[inbound.id] += 1
            if attempt.number > MAX_ATTEMPTS:
                await self._park(queue.conversation_id, inbound, attempt)
                return
            run = partial(self._run_attempt, queue, inbound, attempt)
            try:
                if not isinstance(await guarded(run, "turn.crashed", attempts=attempt.number), Crash):
                    return
            except TRANSIENT_STORE_ERRORS as error:
                if tries > len(_STORE_RETRY_DELAYS) or not await self._should_retry(queue, inbound, error):
                    raise
                await asyncio.sleep(_STORE_RETRY_DELAYS[tries - 1])
            else:
                if attempt.was_visible or tries == MAX_CRASHES:
                    await self._park(queue.conversation_id, inbound, attempt)
                    return
            is_resumed = bool(await self._store.sessions.known([inbound.id]))
            inbound = replace(inbound, is_resumed=is_resumed, attempts=tries)

    async def _should_retry(
        self, queue: ConversationQueue, inbound: InboundMessage, error: StoreError
    ) -> bool:
        """Decide whether this process retries a turn that a store error ended, and tell its author. A command is not
        retried, because its effect is unknown; nor is a turn whose answer was stored before the error."""
        is_unfinished = await self._store.inbox.is_waiting(inbound.id)
        is_turn = inbound.command is None or bool(await self._store.sessions.known([inbound.id]))
        if self._gateway.is_closing or not (is_unfinished and is_turn):
            return False
        log.warning("turn.waits_for_store", error=type(error).__name__)
        self._publish(inbound, queue.conversation_id, Notice(_STORE_UNAVAILABLE))
        return True

    async def _run_attempt(
        self, queue: ConversationQueue, inbound: InboundMessage, attempt: _Attempt
    ) -> None:
        conversation_id = queue.conversation_id
        if not await self._may_speak(inbound):
            await self._store.inbox.mark_done([inbound.id, *inbound.merged_ids])
            return
        self._publish(inbound, conversation_id, TurnStarted(inbound.id, inbound.text))
        if inbound.command and not inbound.is_resumed:
            if attempt.number > 1:
                await self._finish_with_notice(conversation_id, inbound, _COMMAND_INTERRUPTED)
                self._publish(inbound, conversation_id, TurnDone(""))
                return
            again = await self._run_command(await self._store.sessions.conversation(conversation_id), inbound)
            if again is None:
                self._publish(inbound, conversation_id, TurnDone(""))
                return
            inbound = replace(inbound, text=again.text, parts=again.parts)
        await self._run_turn(queue, inbound, attempt)

    async def _run_turn(self, queue: ConversationQueue, inbound: InboundMessage, attempt: _Attempt) -> None:
        turn, live = await finish_despite_cancel(self._accept(queue, inbound))
        if self._settings.config.gateway.busy == "interrupt" and any(
            waiting.command is None for waiting in queue.waiting
        ):
            # The person has written again and wants an answer to the last message.
            await self._store.inbox.mark_done([inbound.id])
            self._publish(inbound, live.conversation.id, TurnDone("", stopped=True))
            return
        await self._gateway.limits.budget.check(inbound.sender)
        for event in await compact_if_oversized(self._agent, live):
            self._publish_event(inbound, live.conversation.id, event)
        async with aclosing(self._agent.run(turn, live)) as events:
            async for event in events:
                attempt.was_visible |= isinstance(event, TextDelta)
                self._publish_event(inbound, live.conversation.id, event)
        log.info("turn.done")

    def _publish_event(self, inbound: InboundMessage, conversation_id: str, event: TurnEvent) -> None:
        if isinstance(event, Notice) and event.for_admins and not inbound.is_by_admin:
            log.warning("turn.advice", advice=event.text)
        else:
            self._publish(inbound, conversation_id, event)

    async def _accept(self, queue: ConversationQueue, inbound: InboundMessage) -> tuple[Turn, LiveContext]:
        """Store the message before anything else, so that no failure of the turn loses it."""

        async def steering() -> Arrived:
            first = queue.first_while(lambda waiting: waiting.command is None)
            allowed = [_user_message(waiting) for waiting in first if await self._may_speak(waiting)]
            settles = [message_id for waiting in first for message_id in (waiting.id, *waiting.merged_ids)]
            return Arrived(allowed, settles, on_stored=partial(queue.remove, first))

        # Read now and not when the message was queued: a command may have moved the live session since.
        conversation = await self._store.sessions.conversation(queue.conversation_id)
        config = self._settings.config
        if not inbound.is_resumed and (
            notice := await reset_if_due(self._agent, conversation, config.sessions)
        ):
            self._publish(inbound, conversation.id, Notice(notice))
            conversation = await self._store.sessions.conversation(conversation.id)
        turn = Turn(
            conversation,
            _user_message(inbound),
            workspace=self._gateway.workspace(conversation.id),
            steering=steering if config.gateway.busy == "steer" else None,
            send_file=partial(self._send_file, conversation.id, inbound),
            approve=self._approver(conversation.id, inbound) if config.tools.approval == "ask" else None,
            has_begun=inbound.is_resumed,
            attempt=inbound.attempts,
            also_answers=inbound.merged_ids,
            will_resume=lambda: self._gateway.is_closing,
        )
        return turn, await self._agent.accept(turn)

    def _approver(self, conversation_id: str, inbound: InboundMessage) -> Approve:
        approvals = self._gateway.approvals
        if not inbound.may_approve:
            return approvals.refuse
        return approvals.approver(conversation_id, inbound.sender, partial(self._may_speak, inbound))

    async def _may_speak(self, inbound: InboundMessage) -> bool:
        """Ask again at the turn: its author may have lost access while the message waited."""
        if (origin := inbound.origin) is None:
            return True
        platform = inbound.address.platform
        if await self._gateway.access.may_speak(platform, origin.author, origin.place):
            return True
        log.info("turn.refused", author=inbound.sender)
        return False

    async def _send_file(self, conversation_id: str, inbound: InboundMessage, file: FileSent) -> None:
        outbox_id = new_id("out")
        is_delivered = await self._store.outbox.add(
            outbox_id,
            conversation_id=conversation_id,
            turn_id=inbound.id,
            kind="file",
            content=file_content(file),
        )
        file = replace(file, outbox_id=outbox_id) if is_delivered else file
        self._publish(inbound, conversation_id, file)

    # -- ends ------------------------------------------------------------------------------------------------

    async def _finish_with_notice(self, conversation_id: str, inbound: InboundMessage, notice: str) -> None:
        outbox_id = await self._mark_done(conversation_id, inbound, notice)
        self._publish(inbound, conversation_id, Notice(notice, outbox_id))

    async def _mark_done(self, conversation_id: str, inbound: InboundMessage, notice: str) -> str:
        """Return the notice's outbox id, or nothing if its reader polls for it."""
        outbox_id = new_id("out")
        is_delivered = await finish_despite_cancel(
            self._store.inbox.mark_done(
                [inbound.id, *inbound.merged_ids],
                conversation_id=conversation_id,
                notice_id=outbox_id,
                notice=notice,
            )
        )
        return outbox_id if is_delivered else ""

    async def _fail(self, conversation_id: str, inbound: InboundMessage, error: str) -> None:
        """Publish the failure. A message that could not be stored is retried at the next start."""
        outbox_id = ""
        with suppress(StoreError):
            if await self._is_stored(inbound):
                outbox_id = await self._mark_done(conversation_id, inbound, f"⚠ {error}")
        self._publish(inbound, conversation_id, TurnFailed(error, outbox_id))

    async def _stop(self, queue: ConversationQueue, inbound: InboundMessage) -> None:
        """End a turn that its author stopped, or that a shutdown interrupts until the next start."""
        conversation_id = queue.conversation_id
        running = self._gateway.hub.running(conversation_id)
        if running is None or running.message_id != inbound.id:
            self._publish(inbound, conversation_id, TurnStarted(inbound.id, inbound.text))
        if self._gateway.is_closing:
            await self._interrupt(conversation_id, inbound)
            return
        log.info("turn.stopped")
        with suppress(StoreError):
            if not await self._is_stored(inbound) and await self._may_speak(inbound):
                await self._accept(queue, inbound)
            await self._store.inbox.mark_done([inbound.id, *inbound.merged_ids])
        # The answer to /stop comes first, so that the end of the turn need not repeat it.
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_ANSWER_TIMEOUT), _immediate_lock(conversation_id):
                pass
        self._publish(inbound, conversation_id, TurnDone("", stopped=True))

    async def _interrupt(self, conversation_id: str, inbound: InboundMessage) -> None:
        """End a turn because Hermes stops. The attempts of this process do not count. If the answer was stored
        already, the turn is done."""
        with suppress(StoreError):
            if not await self._store.inbox.is_waiting(inbound.id):
                self._publish(inbound, conversation_id, TurnDone(""))
                return
            await self._store.inbox.cancel_attempt(inbound.id, self._attempts[inbound.id])
        log.info("turn.interrupted")
        self._publish(inbound, conversation_id, TurnFailed(_RESUMES_LATER))

    async def _is_stored(self, inbound: InboundMessage) -> bool:
        """Whether the message is in its conversation's history. A command needs no place there."""
        return inbound.command is not None or bool(await self._store.sessions.known([inbound.id]))

    async def _park(self, conversation_id: str, inbound: InboundMessage, attempt: _Attempt) -> None:
        """Give up on a message. A chat deletes the unfinished text; a terminal cannot."""
        log.error("turn.parked")
        stays_visible = attempt.was_visible and inbound.origin is None
        may_be_incomplete = stays_visible or await self._store.outbox.may_be_half_seen(inbound.id)
        incomplete = _MAY_BE_INCOMPLETE if may_be_incomplete else ""
        sentence = _PARKED + incomplete + (_RETRY_HINT if await self._is_stored(inbound) else "")
        outbox_id = new_id("out")
        is_delivered = await self._store.inbox.park(
            [inbound.id, *inbound.merged_ids],
            _CRASH_REASON,
            conversation_id=conversation_id,
            notice_id=outbox_id,
            notice=f"⚠ {sentence}",
        )
        failure = TurnFailed(sentence, outbox_id if is_delivered else "", retracts=True)
        self._publish(inbound, conversation_id, failure)


@dataclass(slots=True)
class _Attempt:
    number: int
    was_visible: bool = False
    """Whether a part of the answer was published."""


def _immediate_lock(conversation_id: str) -> asyncio.Lock:
    """Return the lock that is held while a command runs beside the conversation's turn."""
    return keyed_lock(f"immediate {conversation_id}")


def _user_message(inbound: InboundMessage) -> Message:
    return Message("user", inbound.text, parts=inbound.parts, id=inbound.id)
