"""The gateway: persists inbound messages of every platform, and runs one turn at a time per conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from agent.errors import NotFound
from agent.events import Notice, Queued, TurnDone, TurnEvent, TurnFailed, TurnStarted
from agent.loop import Agent
from agent.store import Conversation
from gateway.access import AccessControl
from gateway.commands.registry import Commands
from gateway.core.approvals import Approvals
from gateway.core.conversation_queue import ConversationQueue, LeaseHolder, QueueEntry
from gateway.core.events import NULL_OBSERVER, Envelope, EventHub, Observer
from gateway.core.inbox_codec import (
    decode_command,
    decode_local,
    encode_command,
    encode_local,
    is_command_row,
)
from gateway.core.parked import ParkedItems, RunningBot
from gateway.core.retry import SUSPECT_DELAY
from gateway.core.turns import Busy, Turns
from gateway.errors import CommandFailed, ShuttingDown
from gateway.limits import Limits
from gateway.plugins.hooks import hook_for
from gateway.plugins.loader import Plugins
from gateway.reload import CurrentConfig
from gateway.store.ports import GatewayStore, InboxMessage
from gateway.types import ONE_SHOT_PREFIX, CommandCall, InboundMessage, Place, parse_command

log = structlog.get_logger(__name__)

COMMAND_TIMEOUT = 20.0
"""Seconds that `run_command` waits for an answer."""
UNREADABLE = "it cannot be read any more"
"""Why an inbox row is parked that no version of the codec can decode."""
_TAKES_LONGER = (
    "It runs after the messages before it, which may take a while. The answer appears in the chat."
)


@dataclass(frozen=True, slots=True)
class ActiveTurn:
    """A conversation in which a message is being answered."""

    conversation_id: str
    inbound: InboundMessage
    since: float
    waiting: int
    """The number of messages behind it."""


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
        settings: CurrentConfig,
        limits: Limits | None = None,
        observer: Observer = NULL_OBSERVER,
        suspect_delay: float = SUSPECT_DELAY,
    ) -> None:
        self.agent = agent
        self.store = store
        self.commands = commands
        self.plugins = plugins
        self.settings = settings
        self.limits = limits or Limits.none(store.sessions)
        self.access = AccessControl()
        self.bots: dict[str, RunningBot] = {}
        """The chat bots that run in this process, by platform. They add themselves when they are built."""
        self.observer = observer
        self.hub = EventHub()
        self.approvals = Approvals(self.hub.publish)
        self.parked = ParkedItems(self)
        self.recovery_lock = asyncio.Lock()
        """Held while unfinished or parked messages are resumed, so that none is resumed twice."""
        self.is_closing = False
        self._workspaces = workspaces
        self._holder = LeaseHolder(store.leases)
        self._turns = Turns(self, self._holder, suspect_delay=suspect_delay)
        self._queues: dict[str, ConversationQueue] = {}
        self._hooks: set[asyncio.Task[None]] = set()
        """Keeps references, because the event loop holds tasks only weakly."""

    # -- inbound ---------------------------------------------------------------------------------------------

    async def receive(self, inbound: InboundMessage) -> Conversation:
        """Persist a message of the web chat or the terminal, then queue it. Its events come through
        `hub.watch(conversation.id)`. Raises QueueFull."""
        conversation = await self.store.sessions.open_conversation(inbound.address, person=inbound.person)
        if inbound.command is None:
            inbound = replace(inbound, command=parse_command(inbound.text))
        entry = None
        if not self.commands.overtakes(inbound.command):
            queue = self._queues.get(conversation.id)
            self.limits.check_queue(queue.count_of(inbound.sender) if queue else 0)
            entry = self.reserve(conversation.id, inbound.sender)
        is_new = False
        try:
            is_new = await self.store.inbox.add(encode_local(inbound))
        finally:
            if entry is not None and not is_new:
                entry.drop()
        if is_new:
            await self.submit(inbound, conversation, entry)
        return conversation

    async def submit(
        self, inbound: InboundMessage, conversation: Conversation, entry: QueueEntry | None = None
    ) -> None:
        """Queue a message that is in the inbox, or run a command that overtakes. `entry` is its position from
        `reserve`."""
        if self.is_closing:
            log.info("gateway.kept_for_later", conversation=conversation.id, message=inbound.id)
            if entry is not None:
                entry.drop()
            return
        if self.commands.overtakes(inbound.command):
            await self._turns.run_immediately(conversation, inbound)
            return
        entry = entry or self.reserve(conversation.id, inbound.sender)
        queue = self._queues[conversation.id]
        running = self.hub.running(conversation.id)
        self.observer.queued(inbound.id)
        ahead = entry.fill(inbound) + (running is not None)
        if not ahead:
            return
        runs_command = running is not None and queue.current is not None and queue.current[0].command
        how: Busy = "queue" if inbound.command or runs_command else self._busy
        self.publish(inbound, conversation.id, Queued(inbound.id, inbound.text, how, ahead))
        if how == "interrupt":
            queue.stop_turn()

    def reserve(
        self, conversation_id: str, sender: str, is_due: Callable[[], bool] = lambda: True
    ) -> QueueEntry:
        """Reserve the next position in the conversation's queue, to be filled by `submit` or dropped."""
        queue = self._queues.get(conversation_id)
        if queue is None:
            queue = self._queues[conversation_id] = ConversationQueue(
                conversation_id, self._turns.handle, self._queues.pop
            )
        return queue.reserve(sender, is_due)

    async def run_command(
        self,
        conversation: Conversation,
        command: CommandCall,
        *,
        actor: str,
        reply_to: Place | None = None,
        timeout: float = COMMAND_TIMEOUT,  # noqa: ASYNC109 - the command continues after the timeout
    ) -> str:
        """Run a command in a conversation and return its answer, or a sentence if that takes longer than `timeout`.

        The command is persisted, runs in order with the conversation's messages and under its lease. Its answer is
        delivered to `reply_to` as well. Raises CommandFailed."""
        if self.is_closing:
            raise ShuttingDown
        inbound = InboundMessage(
            conversation.address, conversation.person, command.text, command=command, author=actor
        )
        row = encode_command(conversation, inbound, reply_to)
        with self.hub.watch(conversation.id, after=self.hub.last_number(conversation.id)) as envelopes:
            await self.store.inbox.add(row)
            if self.commands.overtakes(command):
                return await self._turns.run_immediately(conversation, inbound)
            await self._submit_row(row, conversation, inbound)
            try:
                async with asyncio.timeout(timeout):
                    return await _answer_to(inbound.id, envelopes)
            except TimeoutError:
                return _TAKES_LONGER

    def replace_queued(self, conversation_id: str, inbound: InboundMessage) -> bool:
        """Replace a queued message by its edited form. Returns False once its turn has begun."""
        queue = self._queues.get(conversation_id)
        return queue is not None and queue.replace(inbound)

    # -- recovery --------------------------------------------------------------------------------------------

    async def recover(self, platform: str, *, chat_id: str | None = None) -> None:
        """Resume the messages of the web chat or the terminal that an earlier process left. Chat bots do that
        themselves when they connect."""
        async with self.recovery_lock:
            for row, is_resumed in await self.unfinished(platform):
                await self.resume(row, is_resumed=is_resumed, chat_id=chat_id)

    async def unfinished(self, platform: str) -> list[tuple[InboxMessage, bool]]:
        """Return the messages that an earlier process left, in order, each with whether its turn had begun."""
        rows = await self.store.inbox.waiting(platform)
        self._turns.suspects.find(rows)
        begun = await self.store.sessions.known([row.id for row in rows])
        return [(row, row.id in begun) for row in rows]

    async def resume(self, row: InboxMessage, *, is_resumed: bool, chat_id: str | None = None) -> bool:
        """Queue a row of the web chat or the terminal, or a command. Parks an unreadable row and returns False.

        With `chat_id`, only for that chat."""
        if any(queue.holds(row.id) for queue in self._queues.values()):
            return True
        try:
            if is_command_row(row):
                conversation, inbound = await self._decode_command(row)
            else:
                inbound = decode_local(row)
                conversation = await self.store.sessions.open_conversation(
                    inbound.address, person=inbound.person
                )
        except (KeyError, TypeError, ValueError, NotFound):
            log.error("gateway.unreadable", platform=row.platform, message=row.id)
            await self.store.inbox.park([row.id], UNREADABLE)
            return False
        inbound = replace(inbound, is_resumed=is_resumed)
        if chat_id is None and inbound.address.chat_id.startswith(ONE_SHOT_PREFIX):
            await self.store.inbox.mark_done([inbound.id])  # `hermes chat -q` has exited
        elif chat_id in (None, inbound.address.chat_id):
            log.info("gateway.recovered", platform=row.platform, message=row.id)
            await self._submit_row(row, conversation, inbound)
        return True

    async def _decode_command(self, row: InboxMessage) -> tuple[Conversation, InboundMessage]:
        conversation_id, actor, command = decode_command(row)
        conversation = await self.store.sessions.conversation(conversation_id)
        inbound = InboundMessage(
            conversation.address, conversation.person, command.text, row.id, command, author=actor
        )
        return conversation, inbound

    async def _submit_row(
        self, row: InboxMessage, conversation: Conversation, inbound: InboundMessage
    ) -> None:
        bot = self.bots.get(row.platform)
        if bot is not None and row.place is not None:
            bot.follow(conversation.id, row.place)
        await self.submit(inbound, conversation)

    # -- status ----------------------------------------------------------------------------------------------

    @property
    def active_count(self) -> int:
        """The number of conversations in which a message is answered or waits."""
        return len(self._queues)

    def is_busy(self, conversation_id: str) -> bool:
        """Whether a message of the conversation is answered or waits."""
        return conversation_id in self._queues

    @property
    def waiting(self) -> int:
        """The number of messages that wait for their turn, in all conversations."""
        return sum(len(queue.waiting) for queue in self._queues.values())

    @property
    def active_turns(self) -> list[ActiveTurn]:
        """The running turns, the oldest first."""
        turns = [
            ActiveTurn(queue.conversation_id, *queue.current, waiting=len(queue.waiting))
            for queue in self._queues.values()
            if queue.current
        ]
        return sorted(turns, key=lambda turn: turn.since)

    def queued(self, conversation_id: str) -> list[Queued]:
        """Return the event of each waiting message again, for a watcher that joins late."""
        queue = self._queues.get(conversation_id)
        waiting = queue.waiting if queue else ()
        return [
            Queued(inbound.id, inbound.text, "queue" if inbound.command else self._busy, ahead)
            for ahead, inbound in enumerate(waiting, start=1)
        ]

    def workspace(self, conversation_id: str) -> Path:
        return self._workspaces / conversation_id

    def stop_turn(self, conversation_id: str) -> bool:
        """Cancel the running turn. Returns False if no turn is running."""
        queue = self._queues.get(conversation_id)
        return queue is not None and queue.stop_turn()

    async def close(self) -> None:
        """Give running turns some time to end. Messages without an answer are resumed at the next start."""
        self.is_closing = True
        seconds = self.settings.config.gateway.drain_seconds
        await asyncio.gather(*(queue.close(seconds) for queue in list(self._queues.values())))
        await self._holder.close()

    def publish(self, inbound: InboundMessage, conversation_id: str, event: TurnEvent) -> None:
        """Send the event to watchers, to the observer and, without waiting, to the plugins' hooks."""
        self.hub.publish(conversation_id, event)
        self.observer.event(inbound, event)
        if hook := hook_for(event):
            about = {"conversation_id": conversation_id, "message_id": inbound.id}
            name, data = hook
            hooks = self.plugins.hooks.emit(name, platform=inbound.address.platform, **about, **data)
            task = asyncio.create_task(hooks)
            self._hooks.add(task)
            task.add_done_callback(self._hooks.discard)

    # -- the queues ------------------------------------------------------------------------------------------

    @property
    def _busy(self) -> Busy:
        return self.settings.config.gateway.busy


async def _answer_to(message_id: str, envelopes: AsyncIterator[Envelope]) -> str:
    """Wait for the turn of this message and return its last notice. Raises CommandFailed."""
    answer, is_running = "", False
    async for envelope in envelopes:
        match envelope.event:
            case TurnStarted():
                is_running = envelope.event.message_id == message_id
            case Notice(text=text) if is_running:
                answer = text
            case TurnDone() if is_running:
                return answer
            case TurnFailed(error=error) if is_running:
                raise CommandFailed(error)
    return _TAKES_LONGER
