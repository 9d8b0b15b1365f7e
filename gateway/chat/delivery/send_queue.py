"""What is to be made visible in one conversation, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gateway.chat.delivery.item import NEVER, Call, DeliveryItem, Send, SendFile
from gateway.chat.delivery.status_message import TransientMessage
from gateway.chat.delivery.text_message import Style, TextMessage
from gateway.chat.errors import DeliveryError


class SendQueue:
    """Blocks come on in the order they were added; one that is not through yet holds back those after it.

    The blocks of one turn are an act. If one of them cannot be shown, the others are not tried either.
    """

    def __init__(self, fleeting: Sequence[TransientMessage] = (), conversation_id: str = "") -> None:
        self.conversation_id = conversation_id
        self.turn_id = ""
        """Of the turn that was begun last, for the log."""
        self.newest_id = ""
        """The lowest of our messages in the chat."""
        self.abandoned_because = ""
        """Why the present act is not shown, if it is not."""
        self._act = 0
        self._blocks: list[DeliveryItem] = []
        self._fleeting = fleeting

    def begin_act(self) -> None:
        self._act += 1
        self.abandoned_because = ""

    def add(self, block: DeliveryItem) -> None:
        block.act, block.turn_id = self._act, self.turn_id
        self._blocks.append(block)

    def abandon(self, failed: DeliveryItem, reason: str) -> None:
        act = self._act if failed in self._fleeting else failed.act
        for block in self._blocks:
            if block.act == act:
                block.give_up(reason)
        self._blocks = [block for block in self._blocks if block.act != act]
        if act == self._act:
            self.abandoned_because = reason
            for each in self._fleeting:
                each.reset()

    def due(self) -> float:
        return min(map(_due, self._on_stage()), default=NEVER)

    def next(self, now: float) -> DeliveryItem | None:
        return next((block for block in self._on_stage() if _due(block) <= now), None)

    def done(self, block: DeliveryItem, call: Call, message_id: str, now: float) -> None:
        if isinstance(call, Send | SendFile):
            self.newest_id = message_id
        block.done(call, message_id, now)
        self._clear()

    def failed(self, block: DeliveryItem, call: Call, error: DeliveryError, now: float) -> None:
        sentence = block.failed(call, error, now)
        if block.lost:
            self.abandon(block, str(error))
        elif sentence:
            apology = TextMessage(block.venue, Style(is_apology=True), whole=sentence)
            apology.act, apology.turn_id = block.act, block.turn_id
            self._blocks.insert(self._blocks.index(block), apology)
        self._clear()

    def _on_stage(self) -> Iterator[DeliveryItem]:
        for block in self._blocks:
            yield block
            if block.holds_back:
                return
        yield from self._fleeting

    def _clear(self) -> None:
        self._blocks = [block for block in self._blocks if not block.over]


def _due(block: DeliveryItem) -> float:
    due = block.due()
    return due if due == NEVER else max(due, block.venue.pace.held_until)
