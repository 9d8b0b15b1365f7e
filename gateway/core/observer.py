"""Ports for metrics and traces. The gateway behaves the same with and without an observer."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from agent.events import TurnEvent
from gateway.types import InboundMessage


class DeliveryObserver(Protocol):
    """Observes calls to a chat service and their results."""

    def call(self, platform: str, name: str, turn_id: str) -> AbstractContextManager[object]:
        """Return a context manager for one call to the service. Exceptions pass through."""
        ...

    def delivered(self, platform: str, outcome: str) -> None:
        """Count an outbox item that is finally `sent` or `parked`."""
        ...


class Observer(DeliveryObserver, Protocol):
    """Observes turns and deliveries."""

    def queued(self, message_id: str) -> None:
        """Note that the message waits for its turn from now on."""
        ...

    def turn(self, conversation_id: str, inbound: InboundMessage) -> AbstractContextManager[object]:
        """Return a context manager for all work on this message."""
        ...

    def event(self, inbound: InboundMessage, event: TurnEvent) -> None:
        """Note an event of the turn that answers this message, or that the message is queued."""
        ...


class NullObserver:
    """An observer that records nothing."""

    def queued(self, message_id: str) -> None: ...

    def turn(self, conversation_id: str, inbound: InboundMessage) -> AbstractContextManager[object]:
        return nullcontext()

    def event(self, inbound: InboundMessage, event: TurnEvent) -> None: ...

    def call(self, platform: str, name: str, turn_id: str) -> AbstractContextManager[object]:
        return nullcontext()

    def delivered(self, platform: str, outcome: str) -> None: ...


NULL_OBSERVER = NullObserver()
