"""Who measures what the gateway does. What happens is the same whether anybody does or not."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from agent.events import TurnEvent
from gateway.types import InboundMessage


class DeliveryObserver(Protocol):
    """Told about the way out to a chat service."""

    def call(self, platform: str, name: str, turn_id: str) -> AbstractContextManager[object]:
        """Around one call of the service; what it raises passes through."""
        ...

    def delivered(self, platform: str, outcome: str) -> None:
        """What has to arrive is `sent`, all of it, or `parked`."""
        ...


class Observer(DeliveryObserver, Protocol):
    def waits(self, message_id: str) -> None:
        """It stands in line from now on."""
        ...

    def turn(self, conversation_id: str, inbound: InboundMessage) -> AbstractContextManager[object]:
        """Around everything that is done about this message."""
        ...

    def told(self, inbound: InboundMessage, event: TurnEvent) -> None:
        """An event of the turn that answers this message, or that it waits."""
        ...


class NullObserver:
    """Nobody measures."""

    def waits(self, message_id: str) -> None: ...

    def turn(self, conversation_id: str, inbound: InboundMessage) -> AbstractContextManager[object]:
        return nullcontext()

    def told(self, inbound: InboundMessage, event: TurnEvent) -> None: ...

    def call(self, platform: str, name: str, turn_id: str) -> AbstractContextManager[object]:
        return nullcontext()

    def delivered(self, platform: str, outcome: str) -> None: ...


NULL_OBSERVER = NullObserver()
