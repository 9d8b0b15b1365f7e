"""The path of one message: mailbox, command or turn, events to whoever watches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import structlog

from agent.approval import Approve
from agent.context_plan import LiveContext
from agent.errors import HermesError
from agent.events import Notice, Queued, TurnDone, TurnEvent, TurnFailed, TurnStarted
from agent.loop import Agent, Turn, nothing_new
from agent.messages import Message
from agent.store import Conversation, SessionStore
from agent.uninterrupted import uninterrupted
from gateway.approvals import Approvals
from gateway.commands import Again, CommandContext, Commands, is_command
from gateway.config.platforms import SessionsConfig
from gateway.expiry import begin_anew_if_due
from gateway.hub import EventHub
from gateway.hygiene import keep_in_bounds
from gateway.mailbox import Mailbox
from gateway.messages import OWNER, InboundMessage
from gateway.plugins import Plugins
from gateway.plugins.hooks import hook_for

log = structlog.get_logger(__name__)

Busy = Literal["queue", "steer", "interrupt"]

_OUR_FAULT = "Something went wrong inside Hermes; the message is kept. `hermes doctor` and the log say more."
_SWITCHED_OFF = "Hermes is being stopped, so this answer ends here. `/retry` asks again once it is back."
_KEPT = "Hermes is stopping. Your message is kept; write again to have it answered."
_MOST_WAITING = 50
"""Messages of one conversation. Each becomes a turn that somebody pays for."""


class Gateway:
    """Takes messages from every platform and runs them against the agent."""

    def __init__(
        self,
        agent: Agent,
        store: SessionStore,
        commands: Commands,
        plugins: Plugins,
        *,
        workspaces: Path,
        busy: Busy = "queue",
        sessions: SessionsConfig | None = None,
        ask_before_danger: bool = True,
    ) -> None:
        self.agent = agent
        self.store = store
        self.commands = commands
        self.plugins = plugins
        self.hub = EventHub()
        self.approvals = Approvals(self.hub.publish)
        self._workspaces = workspaces
        self._busy = busy
        self._sessions = sessions or SessionsConfig()
        self._ask_before_danger = ask_before_danger
        self._mailboxes: dict[str, Mailbox] = {}
        self._closing = False
        self._hooks: set[asyncio.Task[None]] = set()
        """Kept, because the event loop holds tasks only weakly."""

    async def receive(
        self, inbound: InboundMessage, conversation: Conversation | None = None
    ) -> Conversation:
        """Queues the message; its events come through `hub.watch(conversation.id)`. `conversation` is the one at its
        address, if that is known already."""
        if conversation is None:
            conversation = await self.store.open_conversation(inbound.address, person=inbound.person)
        if self._closing:
            raise HermesError("Hermes is shutting down; send the message again in a moment.")
        if self.commands.overtakes(inbound.text):
            await self._run_command(conversation, inbound)
        else:
            self._put(conversation.id, inbound)
        return conversation

    def replace_waiting(self, conversation_id: str, inbound: InboundMessage) -> bool:
        """For a message its author has changed: False once its turn has begun."""
        mailbox = self._mailboxes.get(conversation_id)
        return mailbox is not None and mailbox.replace(inbound)

    def workspace(self, conversation_id: str) -> Path:
        return self._workspaces / conversation_id

    def stop_turn(self, conversation_id: str) -> bool:
        mailbox = self._mailboxes.get(conversation_id)
        return mailbox is not None and mailbox.stop_turn()

    async def close(self) -> None:
        self._closing = True
        mailboxes = list(self._mailboxes.values())
        for outcome in await asyncio.gather(*map(self._keep_unread, mailboxes), return_exceptions=True):
            if isinstance(outcome, BaseException):
                await asyncio.to_thread(log.error, "gateway.unread_not_kept", exc_info=outcome)

    def _put(self, conversation_id: str, inbound: InboundMessage) -> None:
        mailbox = self._mailbox(conversation_id)
        if len(mailbox.waiting) >= _MOST_WAITING:
            raise HermesError(
                f"{_MOST_WAITING} messages are waiting to be answered; this one was not taken. Send it again later."
            )
        running = self.hub.running(conversation_id)
        ahead = mailbox.put(inbound) + (running is not None)
        if not ahead:
            return
        commands = is_command(inbound.text) or (running is not None and is_command(running.text))
        how: Busy = "queue" if commands else self._busy
        self._publish(inbound, conversation_id, Queued(inbound.id, inbound.text, how, ahead))
        if how == "interrupt":
            mailbox.stop_turn()

    def _mailbox(self, conversation_id: str) -> Mailbox:
        if conversation_id not in self._mailboxes:
            self._mailboxes[conversation_id] = Mailbox(conversation_id, self._handle, self._forget)
        return self._mailboxes[conversation_id]

    def _forget(self, conversation_id: str) -> None:
        self._mailboxes.pop(conversation_id, None)

    async def _handle(self, mailbox: Mailbox, inbound: InboundMessage) -> None:
        """One message, to its end. Nothing that goes wrong with it may reach the next one."""
        conversation_id = mailbox.conversation_id
        with structlog.contextvars.bound_contextvars(conversation=conversation_id, message=inbound.id):
            try:
                if await _is_still_allowed(inbound):
                    self._publish(inbound, conversation_id, TurnStarted(inbound.id, inbound.text))
                    await self._answer(mailbox, inbound)
            except asyncio.CancelledError:
                log.info("turn.stopped")
                ended = TurnFailed(_SWITCHED_OFF) if self._closing else TurnDone("", stopped=True)
                self._publish(inbound, conversation_id, ended)
            except HermesError as error:
                log.warning("turn.failed", error=type(error).__name__)
                self._publish(inbound, conversation_id, TurnFailed(str(error)))
            except Exception as error:  # noqa: BLE001 - a bug in one message must not end the mailbox
                # In a thread, because showing a traceback reads source files.
                await asyncio.to_thread(log.error, "turn.crashed", exc_info=error)
                self._publish(inbound, conversation_id, TurnFailed(_OUR_FAULT))

    async def _answer(self, mailbox: Mailbox, inbound: InboundMessage) -> None:
        if is_command(inbound.text):
            conversation = await self.store.conversation(mailbox.conversation_id)
            again = await self._run_command(conversation, inbound)
            if again is None:
                self._publish(inbound, conversation.id, TurnDone(""))
                return
            inbound = replace(inbound, text=again.text, parts=again.parts)
        turn, live = await uninterrupted(self._accept(mailbox, inbound))
        if self._busy == "interrupt" and any(not is_command(waiting.text) for waiting in mailbox.waiting):
            # Somebody has gone on already; what they said last is what they want an answer to.
            self._publish(inbound, live.conversation.id, TurnDone("", stopped=True))
            return
        for event in await keep_in_bounds(self.agent, live):
            self._publish(inbound, live.conversation.id, event)
        async with aclosing(self.agent.run(turn, live)) as events:
            async for event in events:
                self._publish(inbound, live.conversation.id, event)
        log.info("turn.done")

    async def _accept(self, mailbox: Mailbox, inbound: InboundMessage) -> tuple[Turn, LiveContext]:
        """The message is stored first of all: nothing that happens to the turn can lose it."""

        async def steering() -> Sequence[Message]:
            arrived = mailbox.take_while(lambda waiting: not is_command(waiting.text))
            return [_said(waiting) for waiting in arrived if await _is_still_allowed(waiting)]

        # Read now, not when it was queued: a command before it may have moved the live session.
        conversation = await self.store.conversation(mailbox.conversation_id)
        if announced := await begin_anew_if_due(self.agent, conversation, self._sessions):
            self._publish(inbound, conversation.id, Notice(announced))
            conversation = await self.store.conversation(conversation.id)
        turn = Turn(
            conversation,
            _said(inbound),
            workspace=self.workspace(conversation.id),
            steering=steering if self._busy == "steer" else nothing_new,
            publish=partial(self._publish, inbound, conversation.id),
            approve=self._approver(conversation.id, inbound) if self._ask_before_danger else None,
        )
        return turn, await self.agent.accept(turn)

    def _approver(self, conversation_id: str, inbound: InboundMessage) -> Approve:
        if not inbound.may_approve:
            return self.approvals.refuse
        return self.approvals.approver(conversation_id, inbound.by)

    async def _keep_unread(self, mailbox: Mailbox) -> None:
        """At an orderly stop what still waits is stored, so that it is there when the conversation goes on."""
        for inbound in await mailbox.close():
            if not is_command(inbound.text) and await _is_still_allowed(inbound):
                await self._accept(mailbox, inbound)
                self._publish(inbound, mailbox.conversation_id, Notice(_KEPT))

    async def _run_command(self, conversation: Conversation, inbound: InboundMessage) -> Again | None:
        """Tells its answer; gives back a message for the model, if that is what it led to."""
        context = CommandContext(
            conversation,
            self.store,
            self.agent,
            self.commands,
            self.stop_turn,
            author=inbound.by,
            is_admin=inbound.is_admin or inbound.by == OWNER,
            group=inbound.group,
        )
        answer = await self.commands.run(inbound.text, context)
        again = answer if isinstance(answer, Again) else None
        self._publish(inbound, conversation.id, Notice(again.notice if again else str(answer)))
        return again

    def _publish(self, inbound: InboundMessage, conversation_id: str, event: TurnEvent) -> None:
        """To those who watch, and to the plugins' hooks, which nobody waits for."""
        self.hub.publish(conversation_id, event)
        if told := hook_for(event):
            about = {"conversation_id": conversation_id, "message_id": inbound.id}
            name, data = told
            hooks = self.plugins.emit(name, platform=inbound.address.platform, **about, **data)
            task = asyncio.create_task(hooks)
            self._hooks.add(task)
            task.add_done_callback(self._hooks.discard)


async def _is_still_allowed(inbound: InboundMessage) -> bool:
    if inbound.still_allowed is None or await inbound.still_allowed():
        return True
    log.info("turn.refused", author=inbound.by)
    return False


def _said(inbound: InboundMessage) -> Message:
    return Message("user", inbound.text, parts=inbound.parts, id=inbound.id)
