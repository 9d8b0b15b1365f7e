"""The port between the terminal and the agent, and the agent inside this process behind it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import NamedTuple, Protocol

from agent.errors import HermesError
from agent.events import TurnEvent
from agent.store import Address
from agent.tool import Choice
from gateway.core.events import EventDeduplicator
from gateway.core.gateway import Gateway
from gateway.types import OWNER, InboundMessage, parse_command

PLATFORM = "terminal"


class GatewayGone(HermesError):
    """The Hermes this chat was connected to has stopped. Start `hermes chat` again; what was said is kept."""


class Sent(NamedTuple):
    message_id: str
    overtook: bool
    """It was a command that ran at once and begins no turn."""


class ChatBackend(Protocol):
    """One conversation with the agent, wherever the agent runs."""

    @property
    def greeting(self) -> str:
        """Who answers, in a line or two."""
        ...

    @property
    def conversation_id(self) -> str:
        """Once it is open."""
        ...

    async def open(self, chat: str) -> None:
        """Before anything else. Goes on where the chat of this name was left."""
        ...

    async def send(self, text: str) -> Sent:
        """Hands the message over; what comes of it are events.

        Raises GatewayGone, or another HermesError if only this message was refused.
        """
        ...

    async def stop(self) -> bool:
        """Ends the running turn, if there is one."""
        ...

    async def decide(self, approval_id: str, choice: Choice) -> str:
        """Answers what was asked with `ApprovalAsked`; gives a sentence about it."""
        ...

    def events(self) -> AsyncGenerator[TurnEvent, None]:
        """Everything since `open`, each event once; a turn that was running then, from its beginning."""
        ...


class LocalChat:
    """The agent in this process."""

    def __init__(self, gateway: Gateway, greeting: str) -> None:
        self.greeting = greeting
        self._gateway = gateway

    async def open(self, chat: str) -> None:
        self._address = Address(PLATFORM, chat)
        conversation = await self._gateway.store.sessions.open_conversation(self._address, person=OWNER)
        self.conversation_id = conversation.id
        self._unseen = EventDeduplicator(after=self._gateway.hub.last_number(conversation.id))
        await self._gateway.recover(PLATFORM, chat_id=chat)

    async def send(self, text: str) -> Sent:
        inbound = InboundMessage(self._address, OWNER, text, command=parse_command(text))
        overtakes = self._gateway.commands.overtakes(inbound.command)
        await self._gateway.receive(inbound)
        return Sent(inbound.id, overtakes)

    async def stop(self) -> bool:
        return self._gateway.stop_turn(self.conversation_id)

    async def decide(self, approval_id: str, choice: Choice) -> str:
        return self._gateway.approvals.decide(
            approval_id, choice, person=OWNER, conversation_id=self.conversation_id
        )

    async def events(self) -> AsyncGenerator[TurnEvent, None]:
        while True:  # the hub cuts off a watcher that lags far behind; it watches again and gets the rest
            with self._gateway.hub.watch(self.conversation_id, after=self._unseen.last) as envelopes:
                async for envelope in envelopes:
                    if event := self._unseen.take(envelope.number, envelope.event):
                        yield event
