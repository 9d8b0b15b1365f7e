"""One message to its end: a command or a turn of the agent, and whatever goes wrong on the way."""

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
from agent.approval import Approve
from agent.context.child_session import LiveContext
from agent.errors import HermesError, LeaseLost, StoreError
from agent.events import FileSent, Notice, TextDelta, TurnDone, TurnEvent, TurnFailed, TurnStarted
from agent.ids import new_id
from agent.loop import Arrived, Turn, nothing_new
from agent.messages import Message
from agent.models.budget import spending_for
from agent.store import Conversation
from gateway.commands import Again, CommandContext, is_command
from gateway.config.schema_platforms import SessionsConfig
from gateway.core.conversation_queue import ConversationQueue
from gateway.core.leases import LeaseHolder
from gateway.core.retry import TRANSIENT_STORE_ERRORS, retry_store
from gateway.core.session_policy import compact_if_oversized, reset_if_due
from gateway.core.suspects import Suspects
from gateway.store.ports import Fence, TurnStore, file_content
from gateway.types import InboundMessage

if TYPE_CHECKING:
    from gateway.core.gateway import Gateway

log = structlog.get_logger(__name__)

Busy = Literal["queue", "steer", "interrupt"]

MOST_CRASHES = 3
"""Of one message in one process. What breaks down three times breaks down a fourth time."""
MOST_ATTEMPTS = 10
"""In all processes. One that ends the process each time must not do so for ever."""

_ANSWER_SECONDS = 5.0
_STORE_PAUSES = (0.5, 15.0)
"""Before a turn that the store has cut short is tried again: a disk that is all but full takes some things and not
others, and each try may cost a call of a model."""
_WHEN_MENDED = (
    "⚠ Hermes cannot store what it does at the moment. Your message is kept, and answered as soon as that is mended; "
    "there is no need to send it again."
)
_COMES_LATER = "Hermes is stopping; the answer goes on at its next start."
_PARKED = (
    "Something in Hermes broke down over this message. It is kept, and not tried again by itself; `hermes doctor` and "
    "the log say more."
)
_RETRY = " `/retry` asks once more."
_HALF_SEEN = " What you may see of an answer to it is not complete."
_BROKE_DOWN = "Hermes broke down over it"
_NO_TURN = "That cannot be done while an answer is written."
_CUT_SHORT = (
    "Hermes was interrupted while it carried out this command, so it may or may not have taken effect. `/status` shows "
    "how things are."
)


class Turns:
    """Every way out of here settles the message in the inbox, but for those after which it is taken up again."""

    def __init__(
        self,
        gateway: Gateway,
        holder: LeaseHolder,
        *,
        busy: Busy,
        sessions: SessionsConfig,
        ask: bool,
        suspect_pause: float,
    ) -> None:
        self._gateway = gateway
        self._agent = gateway.agent
        self._store: TurnStore = gateway.store
        self._holder = holder
        self._publish = gateway.publish
        self.suspects = Suspects(suspect_pause)
        self._begun: Counter[str] = Counter()
        """How often this process began the turn of a message that it works on."""
        self.apply(busy=busy, sessions=sessions, ask=ask)

    def apply(self, *, busy: Busy, sessions: SessionsConfig, ask: bool) -> None:
        self._busy: Busy = busy
        self._sessions = sessions
        self._ask_before_danger = ask

    async def handle(self, mailbox: ConversationQueue, inbound: InboundMessage) -> None:
        """Nothing that goes wrong with one message may reach the next one."""
        conversation_id = mailbox.conversation_id
        logged = structlog.contextvars.bound_contextvars(conversation=conversation_id, turn=inbound.id)
        observed = self._gateway.observer.turn(conversation_id, inbound)
        with logged, observed, spending_for(inbound.by):
            is_held = False
            try:
                async with self._holder.hold(conversation_id) as fence:
                    is_held = True
                    await self._fenced(fence)._to_its_end(mailbox, inbound)
            except asyncio.CancelledError:
                if not is_held:
                    await finish_despite_cancel(self._stopped(mailbox, inbound))
            except HermesError as error:  # it is in other hands now, or could not even begin
                log.warning("turn.left", error=type(error).__name__)
                self._publish(inbound, conversation_id, TurnFailed(str(error)))
            finally:
                self._begun.pop(inbound.id, None)

    def _fenced(self, fence: Fence) -> Turns:
        """Return a copy whose writes are refused once another process holds the lease of the conversation."""
        turns = copy(self)
        turns._store = self._gateway.store.fenced(fence)
        turns._agent = self._agent.with_store(turns._store.sessions)
        return turns

    async def _to_its_end(self, mailbox: ConversationQueue, inbound: InboundMessage) -> None:
        try:
            async with self.suspects.alone(inbound.id):
                await self._try(mailbox, inbound)
        except asyncio.CancelledError:
            await finish_despite_cancel(self._stopped(mailbox, inbound))
        except LeaseLost:
            raise
        except HermesError as error:
            log.warning("turn.failed", error=type(error).__name__)
            await finish_despite_cancel(self._failed(mailbox.conversation_id, inbound, str(error)))

    async def overtake(self, conversation: Conversation, inbound: InboundMessage) -> None:
        """A command that does not wait for its turn. It is carried out once, whatever comes of it."""
        logged = structlog.contextvars.bound_contextvars(conversation=conversation.id, turn=inbound.id)
        async with _overtaking(conversation.id):
            with logged:
                await self._overtake(conversation, inbound)

    async def _overtake(self, conversation: Conversation, inbound: InboundMessage) -> None:
        try:
            if await self._run_command(conversation, inbound) is not None:
                await self._settle_with(conversation.id, inbound, _NO_TURN)
        except HermesError as error:
            await self._settle_with(conversation.id, inbound, f"⚠ {error}")
        except Exception:
            await self._store.inbox.mark_done([inbound.id])
            raise

    async def _run_command(self, conversation: Conversation, inbound: InboundMessage) -> Again | None:
        """Tells its answer; gives back a message for the model, if that is what it led to."""
        answer = await self._command_answer(conversation, inbound)
        if isinstance(answer, Again):
            self._publish(inbound, conversation.id, Notice(answer.notice))
            return answer
        await self._settle_with(conversation.id, inbound, answer)
        return None

    async def _command_answer(self, conversation: Conversation, inbound: InboundMessage) -> str | Again:
        gateway = self._gateway
        context = CommandContext(
            conversation,
            self._store.sessions,
            self._agent,
            gateway.commands,
            gateway.stop_turn,
            author=inbound.by,
            is_admin=inbound.is_by_admin,
            budget=gateway.limits.budget,
            group=inbound.group,
            needs_restart=gateway.needs_restart(),
            refused=gateway.refused(),
            notices=gateway.plugins.notices,
            unusable_engine=gateway.plugins.unusable_engine,
        )
        return await gateway.commands.run(inbound.text, context)

    async def _try(self, mailbox: ConversationQueue, inbound: InboundMessage) -> None:
        """A few times: what breaks down once may have been the moment's fault, and a crash of the whole process counts
        as well. Not after some of an answer was seen, or people would see two; but what a store that refused has cut
        short was no answer, and is taken back."""
        for tries in count(1):
            attempt = _Attempt(await retry_store(partial(self._store.inbox.start_attempt, inbound.id)))
            self._begun[inbound.id] += 1
            if attempt.number > MOST_ATTEMPTS:
                await self._park(mailbox.conversation_id, inbound)
                return
            try:
                await self._attempt(mailbox, inbound, attempt)
                return
            except TRANSIENT_STORE_ERRORS as error:
                if tries > len(_STORE_PAUSES) or not await self._goes_on(mailbox, inbound, error):
                    raise
                await asyncio.sleep(_STORE_PAUSES[tries - 1])
            except HermesError:
                raise
            except Exception as error:  # noqa: BLE001 - a bug in one message must not end the mailbox
                # In a thread, because showing a traceback reads source files.
                await asyncio.to_thread(log.error, "turn.crashed", attempts=attempt.number, exc_info=error)
                if attempt.was_seen or tries == MOST_CRASHES:
                    await self._park(mailbox.conversation_id, inbound)
                    return
            begun = bool(await self._store.sessions.known([inbound.id]))
            inbound = replace(inbound, has_begun=begun, tried=tries)

    async def _goes_on(self, mailbox: ConversationQueue, inbound: InboundMessage, error: StoreError) -> bool:
        """Whether a turn that the store has cut short is for this process to take up again. Its author is told. Nobody
        knows what a command has done; and an answer may be complete although what comes after it was refused."""
        is_left = await self._store.inbox.is_waiting(inbound.id)
        is_turn = not is_command(inbound.text) or bool(await self._store.sessions.known([inbound.id]))
        if self._gateway.is_closing or not (is_left and is_turn):
            return False
        log.warning("turn.waits_for_store", error=type(error).__name__)
        self._publish(inbound, mailbox.conversation_id, Notice(_WHEN_MENDED))
        return True

    async def _attempt(self, mailbox: ConversationQueue, inbound: InboundMessage, attempt: _Attempt) -> None:
        conversation_id = mailbox.conversation_id
        if not await _is_still_allowed(inbound):
            await self._store.inbox.mark_done([inbound.id, *inbound.joined])
            return
        self._publish(inbound, conversation_id, TurnStarted(inbound.id, inbound.text))
        if is_command(inbound.text) and not inbound.has_begun:
            if attempt.number > 1:
                await self._settle_with(conversation_id, inbound, _CUT_SHORT)
                self._publish(inbound, conversation_id, TurnDone(""))
                return
            again = await self._run_command(await self._store.sessions.conversation(conversation_id), inbound)
            if again is None:
                self._publish(inbound, conversation_id, TurnDone(""))
                return
            inbound = replace(inbound, text=again.text, parts=again.parts)
        await self._answer(mailbox, inbound, attempt)

    async def _answer(self, mailbox: ConversationQueue, inbound: InboundMessage, attempt: _Attempt) -> None:
        turn, live = await finish_despite_cancel(self._accept(mailbox, inbound))
        if self._busy == "interrupt" and any(not is_command(waiting.text) for waiting in mailbox.waiting):
            # Somebody has gone on already; what they said last is what they want an answer to.
            await self._store.inbox.mark_done([inbound.id])
            self._publish(inbound, live.conversation.id, TurnDone("", stopped=True))
            return
        await self._gateway.limits.budget.check(inbound.by)
        for event in await compact_if_oversized(self._agent, live):
            self._tell(inbound, live.conversation.id, event)
        async with aclosing(self._agent.run(turn, live)) as events:
            async for event in events:
                attempt.was_seen |= isinstance(event, TextDelta)
                self._tell(inbound, live.conversation.id, event)
        log.info("turn.done")

    def _tell(self, inbound: InboundMessage, conversation_id: str, event: TurnEvent) -> None:
        if isinstance(event, Notice) and event.for_admins and not inbound.is_by_admin:
            log.warning("turn.advice", advice=event.text)
        else:
            self._publish(inbound, conversation_id, event)

    async def _accept(self, mailbox: ConversationQueue, inbound: InboundMessage) -> tuple[Turn, LiveContext]:
        """The message is stored first of all: nothing that happens to the turn can lose it."""

        async def steering() -> Arrived:
            first = mailbox.first_while(lambda waiting: not is_command(waiting.text))
            welcome = [_said(waiting) for waiting in first if await _is_still_allowed(waiting)]
            settles = [message_id for waiting in first for message_id in (waiting.id, *waiting.joined)]
            return Arrived(welcome, settles, taken=partial(mailbox.remove, first))

        # Read now, not when it was queued: a command before it may have moved the live session.
        conversation = await self._store.sessions.conversation(mailbox.conversation_id)
        if not inbound.has_begun and (
            announced := await reset_if_due(self._agent, conversation, self._sessions)
        ):
            self._publish(inbound, conversation.id, Notice(announced))
            conversation = await self._store.sessions.conversation(conversation.id)
        turn = Turn(
            conversation,
            _said(inbound),
            workspace=self._gateway.workspace(conversation.id),
            steering=steering if self._busy == "steer" else nothing_new,
            give=partial(self._give, conversation.id, inbound),
            approve=self._approver(conversation.id, inbound) if self._ask_before_danger else None,
            has_begun=inbound.has_begun,
            tried=inbound.tried,
            settles=inbound.joined,
            goes_on_later=lambda: self._gateway.is_closing,
        )
        return turn, await self._agent.accept(turn)

    def _approver(self, conversation_id: str, inbound: InboundMessage) -> Approve:
        if not inbound.may_approve:
            return self._gateway.approvals.refuse
        return self._gateway.approvals.approver(conversation_id, inbound.by, inbound.still_allowed)

    async def _give(self, conversation_id: str, inbound: InboundMessage, file: FileSent) -> None:
        outgoing_id = new_id("out")
        is_to_be_brought = await self._store.outbox.add(
            outgoing_id,
            conversation_id=conversation_id,
            turn_id=inbound.id,
            kind="file",
            content=file_content(file),
        )
        file = replace(file, outbox_id=outgoing_id) if is_to_be_brought else file
        self._publish(inbound, conversation_id, file)

    # -- its end ---------------------------------------------------------------------------------------------

    async def _settle_with(self, conversation_id: str, inbound: InboundMessage, answer: str) -> None:
        outgoing_id = await self._settle(conversation_id, inbound, answer)
        self._publish(inbound, conversation_id, Notice(answer, outgoing_id))

    async def _settle(self, conversation_id: str, inbound: InboundMessage, notice: str) -> str:
        """Gives the id under which the notice is on its way, if it has to be brought to somebody."""
        outgoing_id = new_id("out")
        is_to_be_brought = await finish_despite_cancel(
            self._store.inbox.mark_done(
                [inbound.id, *inbound.joined],
                conversation_id=conversation_id,
                notice_id=outgoing_id,
                notice=notice,
            )
        )
        return outgoing_id if is_to_be_brought else ""

    async def _failed(self, conversation_id: str, inbound: InboundMessage, error: str) -> None:
        """A message that could not even be stored is told of all the same, and tried again at the next start."""
        outgoing_id = ""
        with suppress(StoreError):
            if await self._is_stored(inbound):
                outgoing_id = await self._settle(conversation_id, inbound, f"⚠ {error}")
        self._publish(inbound, conversation_id, TurnFailed(error, outgoing_id))

    async def _stopped(self, mailbox: ConversationQueue, inbound: InboundMessage) -> None:
        """By its author; or by a shutdown, after which it is taken up again."""
        conversation_id = mailbox.conversation_id
        running = self._gateway.hub.running(conversation_id)
        if running is None or running.message_id != inbound.id:
            self._publish(inbound, conversation_id, TurnStarted(inbound.id, inbound.text))
        if self._gateway.is_closing:
            await self._interrupted(conversation_id, inbound)
            return
        log.info("turn.stopped")
        with suppress(StoreError):
            if not await self._is_stored(inbound) and await _is_still_allowed(inbound):
                await self._accept(mailbox, inbound)
            await self._store.inbox.mark_done([inbound.id, *inbound.joined])
        # The answer to /stop comes first: then nobody has to say it a second time.
        with suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_SECONDS), _overtaking(conversation_id):
                pass
        self._publish(inbound, conversation_id, TurnDone("", stopped=True))

    async def _interrupted(self, conversation_id: str, inbound: InboundMessage) -> None:
        """The answer may be complete all the same, if only what comes after it was cut short. An orderly stop is no
        crash, however often it comes."""
        with suppress(StoreError):
            if not await self._store.inbox.is_waiting(inbound.id):
                self._publish(inbound, conversation_id, TurnDone(""))
                return
            await self._store.inbox.cancel_attempt(inbound.id, self._begun[inbound.id])
        log.info("turn.interrupted")
        self._publish(inbound, conversation_id, TurnFailed(_COMES_LATER))

    async def _is_stored(self, inbound: InboundMessage) -> bool:
        """Where it belongs; a command belongs nowhere."""
        return is_command(inbound.text) or bool(await self._store.sessions.known([inbound.id]))

    async def _park(self, conversation_id: str, inbound: InboundMessage) -> None:
        log.error("turn.parked")
        half_seen = _HALF_SEEN if await self._store.outbox.may_be_half_seen(inbound.id) else ""
        sentence = _PARKED + half_seen + (_RETRY if await self._is_stored(inbound) else "")
        outgoing_id = new_id("out")
        is_to_be_brought = await self._store.inbox.park(
            [inbound.id, *inbound.joined],
            _BROKE_DOWN,
            conversation_id=conversation_id,
            notice_id=outgoing_id,
            notice=f"⚠ {sentence}",
        )
        self._publish(inbound, conversation_id, TurnFailed(sentence, outgoing_id if is_to_be_brought else ""))


@dataclass(slots=True)
class _Attempt:
    number: int
    was_seen: bool = False
    """Some of its answer."""


def _overtaking(conversation_id: str) -> asyncio.Lock:
    """Held while a command is carried out beside the conversation's turn."""
    return keyed_lock(f"overtaking {conversation_id}")


async def _is_still_allowed(inbound: InboundMessage) -> bool:
    if inbound.still_allowed is None or await inbound.still_allowed():
        return True
    log.info("turn.refused", author=inbound.by)
    return False


def _said(inbound: InboundMessage) -> Message:
    return Message("user", inbound.text, parts=inbound.parts, id=inbound.id)
