"""Where messages of every platform come in: kept first, then each gets its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from agent.events import Queued, TurnEvent
from agent.loop import Agent
from agent.store import Conversation
from gateway.commands import Commands, is_command
from gateway.config.schema import Config
from gateway.config.schema_platforms import SessionsConfig
from gateway.core.approvals import Approvals
from gateway.core.conversation_queue import ConversationQueue
from gateway.core.events import EventHub
from gateway.core.inbox_codec import decode_local, encode_local
from gateway.core.leases import LeaseHolder
from gateway.core.observer import NULL_OBSERVER, Observer
from gateway.core.parked import ParkedItems, RunningBot
from gateway.core.suspects import SUSPECT_PAUSE
from gateway.core.turns import Busy, Turns
from gateway.limits import Limits
from gateway.plugins import Plugins
from gateway.plugins.hooks import hook_for
from gateway.store.ports import GatewayStore, InboxMessage
from gateway.types import ONE_SHOT_PREFIX, InboundMessage

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ActiveTurn:
    """A conversation in which something is being answered."""

    conversation_id: str
    inbound: InboundMessage
    since: float
    waiting: int
    """Messages behind it."""


class Gateway:
    """Takes messages from every platform and runs them against the agent."""

    def __init__(
        self,
        agent: Agent,
        store: GatewayStore,
        commands: Commands,
        plugins: Plugins,
        *,
        workspaces: Path,
        busy: Busy = "queue",
        sessions: SessionsConfig | None = None,
        ask_before_danger: bool = True,
        drain_seconds: float = 0.0,
        limits: Limits | None = None,
        needs_restart: Callable[[], Sequence[str]] = tuple,
        refused: Callable[[], Sequence[str]] = tuple,
        observer: Observer = NULL_OBSERVER,
        suspect_pause: float = SUSPECT_PAUSE,
    ) -> None:
        self.agent = agent
        self.store = store
        self.commands = commands
        self.plugins = plugins
        self.hub = EventHub()
        self.observer = observer
        self.approvals = Approvals(self.hub.publish)
        self.limits = limits or Limits.none(store.sessions)
        self.needs_restart = needs_restart
        self.refused = refused
        """The settings that were changed and count from the next start on."""
        self._workspaces = workspaces
        self._busy = busy
        self._drain_seconds = drain_seconds
        self._holder = LeaseHolder(store.leases)
        self._turns = Turns(
            self,
            self._holder,
            busy=busy,
            sessions=sessions or SessionsConfig(),
            ask=ask_before_danger,
            suspect_pause=suspect_pause,
        )
        self._mailboxes: dict[str, ConversationQueue] = {}
        self._arriving: dict[str, list[InboundMessage]] = {}
        """By conversation: what is being kept just now, and will wait then."""
        self.bots: dict[str, RunningBot] = {}
        """Those that run in this process, by platform."""
        self.taking_up = asyncio.Lock()
        """Held while something that was left or given up on is taken up: nothing of it twice."""
        self.second_chances = ParkedItems(self)
        self.is_closing = False
        self._hooks: set[asyncio.Task[None]] = set()
        """Kept, because the event loop holds tasks only weakly."""

    def apply(self, config: Config) -> None:
        """What may change while it runs. A turn that has begun goes on as it began."""
        self.limits.apply(config.limits)
        self.agent.instructions = config.agent.system_prompt
        self.agent.max_iterations = config.agent.max_iterations
        self._busy = config.gateway.busy
        self._drain_seconds = config.gateway.drain_seconds
        self._turns.apply(
            busy=config.gateway.busy, sessions=config.sessions, ask=config.tools.approval == "ask"
        )

    async def receive(
        self, inbound: InboundMessage, conversation: Conversation | None = None
    ) -> Conversation:
        """Queues the message once it is kept; its events come through `hub.watch(conversation.id)`. `conversation` is
        the one at its address, if that is known already."""
        if conversation is None:
            conversation = await self.store.sessions.open_conversation(inbound.address, person=inbound.person)
        overtakes = self.commands.overtakes(inbound.text)
        if not overtakes and not inbound.is_taken:
            self._check_room(conversation.id, inbound)
        if not inbound.is_taken and not await self._take(conversation.id, inbound):
            return conversation  # it is here already
        if self.is_closing:
            log.info("gateway.kept_for_later", conversation=conversation.id, message=inbound.id)
        elif overtakes:
            await self._turns.overtake(conversation, inbound)
        else:
            self._put(conversation.id, inbound)
        return conversation

    async def recover(self, platform: str, *, chat_id: str | None = None) -> None:
        """Takes up what was left when Hermes stopped, where people come and read; chats do that themselves."""
        async with self.taking_up:
            await self._recover(platform, chat_id)

    async def _recover(self, platform: str, chat_id: str | None) -> None:
        for taken, has_begun in await self.left_waiting(platform):
            try:
                inbound = replace(decode_local(taken), has_begun=has_begun)
            except (KeyError, TypeError, ValueError):
                log.error("gateway.unreadable", platform=platform, message=taken.id)
                await self.store.inbox.park([taken.id], "it cannot be read any more")
                continue
            if chat_id is None and inbound.address.chat_id.startswith(ONE_SHOT_PREFIX):
                await self.store.inbox.mark_done([inbound.id])  # whoever asked has left
            elif chat_id in (None, inbound.address.chat_id) and not self._is_in_hand(inbound.id):
                log.info("gateway.recovered", platform=platform, message=inbound.id)
                await self.receive(inbound)

    async def left_waiting(self, platform: str) -> list[tuple[InboxMessage, bool]]:
        """The messages that an earlier process left, in order, each with whether its turn had begun."""
        waiting = await self.store.inbox.waiting(platform)
        self._turns.suspects.find(waiting)
        begun = await self.store.sessions.known([taken.id for taken in waiting])
        return [(taken, taken.id in begun) for taken in waiting]

    def replace_waiting(self, conversation_id: str, inbound: InboundMessage) -> bool:
        """For a message its author has changed: False once its turn has begun."""
        mailbox = self._mailboxes.get(conversation_id)
        return mailbox is not None and mailbox.replace(inbound)

    @property
    def at_work(self) -> int:
        """How many conversations something is being answered in."""
        return len(self._mailboxes)

    def works_on(self, conversation_id: str) -> bool:
        """Whether something is being answered there, or waits to be."""
        return conversation_id in self._mailboxes

    @property
    def waiting(self) -> int:
        """How many messages wait for their turn, in all conversations."""
        return sum(len(mailbox.waiting) for mailbox in self._mailboxes.values())

    @property
    def active_turns(self) -> list[ActiveTurn]:
        """What is being worked on, the longest first."""
        turns = [
            ActiveTurn(mailbox.conversation_id, *mailbox.at_work, waiting=len(mailbox.waiting))
            for mailbox in self._mailboxes.values()
            if mailbox.at_work
        ]
        return sorted(turns, key=lambda turn: turn.since)

    def queued(self, conversation_id: str) -> list[Queued]:
        """What waits now, as it was told when it came: for whoever looks only now."""
        mailbox = self._mailboxes.get(conversation_id)
        waiting = mailbox.waiting if mailbox else ()
        return [
            Queued(inbound.id, inbound.text, "queue" if is_command(inbound.text) else self._busy, ahead)
            for ahead, inbound in enumerate(waiting, start=1)
        ]

    def workspace(self, conversation_id: str) -> Path:
        return self._workspaces / conversation_id

    def stop_turn(self, conversation_id: str) -> bool:
        mailbox = self._mailboxes.get(conversation_id)
        return mailbox is not None and mailbox.stop_turn()

    async def close(self) -> None:
        """Running turns get some time to end; what is left then, and what waits, is taken up at the next start."""
        self.is_closing = True
        closing = (mailbox.close(self._drain_seconds) for mailbox in list(self._mailboxes.values()))
        await asyncio.gather(*closing)
        await self._holder.close()

    def publish(self, inbound: InboundMessage, conversation_id: str, event: TurnEvent) -> None:
        """To those who watch or measure, and to the plugins' hooks, which nobody waits for."""
        self.hub.publish(conversation_id, event)
        self.observer.told(inbound, event)
        if told := hook_for(event):
            about = {"conversation_id": conversation_id, "message_id": inbound.id}
            name, data = told
            hooks = self.plugins.emit(name, platform=inbound.address.platform, **about, **data)
            task = asyncio.create_task(hooks)
            self._hooks.add(task)
            task.add_done_callback(self._hooks.discard)

    def _check_room(self, conversation_id: str, inbound: InboundMessage) -> None:
        mailbox = self._mailboxes.get(conversation_id)
        waiting = mailbox.waiting if mailbox else ()
        self.limits.check_room([*waiting, *self._arriving.get(conversation_id, ())], inbound)

    async def _take(self, conversation_id: str, inbound: InboundMessage) -> bool:
        """Counted as waiting from now on: many may arrive at the same time."""
        arriving = self._arriving.setdefault(conversation_id, [])
        arriving.append(inbound)
        try:
            return await self.store.inbox.add(encode_local(inbound))
        finally:
            arriving.remove(inbound)
            if not arriving:
                self._arriving.pop(conversation_id, None)

    def _put(self, conversation_id: str, inbound: InboundMessage) -> None:
        mailbox = self._mailbox(conversation_id)
        running = self.hub.running(conversation_id)
        self.observer.waits(inbound.id)
        ahead = mailbox.put(inbound) + (running is not None)
        if not ahead:
            return
        commands = is_command(inbound.text) or (running is not None and is_command(running.text))
        how: Busy = "queue" if commands else self._busy
        self.publish(inbound, conversation_id, Queued(inbound.id, inbound.text, how, ahead))
        if how == "interrupt":
            mailbox.stop_turn()

    def _mailbox(self, conversation_id: str) -> ConversationQueue:
        if conversation_id not in self._mailboxes:
            self._mailboxes[conversation_id] = ConversationQueue(
                conversation_id, self._turns.handle, self._forget
            )
        return self._mailboxes[conversation_id]

    def _is_in_hand(self, message_id: str) -> bool:
        return any(mailbox.holds(message_id) for mailbox in self._mailboxes.values())

    def _forget(self, conversation_id: str) -> None:
        self._mailboxes.pop(conversation_id, None)
