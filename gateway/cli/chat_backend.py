"""The agent in this process as a chat for the terminal. `RemoteChat` in gateway_client.py has the same methods."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, NamedTuple

from agent.errors import HermesError
from agent.events import TextDelta, TurnEvent, TurnStarted
from agent.store import Address
from agent.tool import Choice
from gateway.types import OWNER, InboundMessage, parse_command

if TYPE_CHECKING:
    from gateway.core.gateway import Gateway

PLATFORM = "terminal"


class GatewayGone(HermesError):
    """The Hermes this chat was connected to has stopped. Run `hermes chat` again; the conversation is stored."""


class Sent(NamedTuple):
    message_id: str
    overtook: bool
    """The message was a command that ran at once and starts no turn."""


class EventDeduplicator:
    """Passes every event once to a client that reconnects.

    A reconnected client gets the whole turn again, its text split differently. Text that was printed cannot be
    deleted, so the deduplicator drops events that the client has seen.
    """

    def __init__(self, after: int) -> None:
        self.last = after
        self._message_id = ""
        self._seen_chars = 0
        self._chars_to_skip = 0
        # Events before the first TurnStarted may be repeated as well.
        self._is_replay = True

    def take(self, number: int, event: TurnEvent) -> TurnEvent | None:
        """Return the event, the unseen part of its text, or None if the client has seen it."""
        if isinstance(event, TurnStarted):
            self._start_turn(event.message_id, number)
        is_known = self._is_replay and number <= self.last
        # Not max(): after a restart of the gateway, numbers may be lower.
        self.last = self.last if is_known else number
        if isinstance(event, TextDelta):
            return self._unseen_text(event.text)
        return None if is_known else event

    def _start_turn(self, message_id: str, number: int) -> None:
        """A turn that was started again, as after a crash, has a new number: its text is new."""
        self._is_replay = message_id == self._message_id and number <= self.last
        if not self._is_replay:
            self._message_id, self._seen_chars = message_id, 0
        self._chars_to_skip = self._seen_chars

    def _unseen_text(self, text: str) -> TextDelta | None:
        unseen = text[self._chars_to_skip :]
        self._chars_to_skip -= len(text) - len(unseen)
        self._seen_chars += len(unseen)
        return TextDelta(unseen) if unseen else None


class LocalChat:
    """The agent in this process."""

    def __init__(self, gateway: Gateway, greeting: str) -> None:
        self.greeting = greeting
        self._gateway = gateway

    async def open(self, chat: str) -> None:
        """Open or continue the chat of this name. Call this first."""
        self._address = Address(PLATFORM, chat)
        conversation = await self._gateway.store.sessions.open_conversation(self._address, person=OWNER)
        self.conversation_id = conversation.id
        self._deduplicator = EventDeduplicator(after=self._gateway.hub.last_number(conversation.id))
        await self._gateway.recover(PLATFORM, chat_id=chat)

    async def send(self, text: str) -> Sent:
        """Send a message; `events` reports the answer. Raises a HermesError if the message is refused."""
        inbound = InboundMessage(self._address, OWNER, text, command=parse_command(text))
        overtakes = self._gateway.commands.overtakes(inbound.command)
        await self._gateway.receive(inbound)
        return Sent(inbound.id, overtakes)

    async def stop(self) -> bool:
        """Stop the running turn; return False if there is none."""
        return self._gateway.stop_turn(self.conversation_id)

    async def decide(self, approval_id: str, choice: Choice) -> str:
        """Decide about an `ApprovalAsked`; return a sentence for the person."""
        return self._gateway.approvals.decide(
            approval_id, choice, person=OWNER, conversation_id=self.conversation_id
        )

    async def events(self) -> AsyncGenerator[TurnEvent, None]:
        """Yield each event since `open` once; of a turn that was running then, all events."""
        while True:  # the hub disconnects a slow watcher, which then watches again and gets the rest
            with self._gateway.hub.watch(self.conversation_id, after=self._deduplicator.last) as envelopes:
                async for envelope in envelopes:
                    if event := self._deduplicator.take(envelope.number, envelope.event):
                        yield event
