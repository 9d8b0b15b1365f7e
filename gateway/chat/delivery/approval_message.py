"""Asking the person before a dangerous tool runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from agent.events import ApprovalAsked
from gateway.chat.delivery.item import AT_ONCE, NEVER, POSSIBLY_TWICE, Call, DeliveryItem, Edit, Send
from gateway.chat.delivery.outbox_tracker import OutboxHandle
from gateway.chat.delivery.pacing import ChatTarget
from gateway.chat.errors import ContentRefused, DeliveryError, Undeliverable, Unreachable
from gateway.store.ports import DeliveryProgress
from gateway.text.display import code_block, format_arguments, inline_code
from gateway.text.unicode import prefix_length
from gateway.types import Button

_AROUND_THE_CODE = 300
"""Room for the sentences before and after it, and the fences."""

Outcome = Literal["once", "conversation", "deny", "expired"]

_OUTCOMES: dict[Outcome, str] = {
    "once": "✅ Allowed once",
    "conversation": "✅ Allowed in this conversation",
    "deny": "🚫 Denied",
    "expired": "⌛ Not answered; not run",
}
_LEFT_OPEN = "⌛ No longer open; Hermes was restarted"
_REFUSED = "⚠ The chat service did not take my question whether a tool may run, so it does not run."


class ApprovalMessage(DeliveryItem):
    """While it is open, that is entered, with what it is to say if a crash leaves it so."""

    def __init__(
        self, venue: ChatTarget, event: ApprovalAsked, new_entry: Callable[[str], OutboxHandle | None]
    ) -> None:
        super().__init__(venue)
        port = venue.port
        self.command = format_arguments(event.arguments)
        self._can_edit = port.can_edit
        self._tool = inline_code(event.tool)
        shown = prefix_length(self.command, port.limit - _AROUND_THE_CODE, port.measure)
        self.left_out = len(self.command) - shown
        """Characters that the message has no room for."""
        self._code = code_block(self.command[:shown])
        self._expires_at = event.expires_at
        self._buttons = tuple(
            Button(label, f"approve:{event.approval_id}:{choice}")
            for label, choice in (("Once", "once"), ("This conversation", "conversation"), ("Deny", "deny"))
        )
        self._new_entry = new_entry
        self._outcome: Outcome | None = None
        self._message_id = ""
        self._under_way = self._doubtful = False

    @property
    def is_open(self) -> bool:
        return not self.over and self._outcome is None

    @property
    def holds_back(self) -> bool:
        return not self.over and not self._message_id

    def settle(self, outcome: Outcome) -> None:
        """What was settled before it could be asked is not asked any more."""
        self._outcome = self._outcome or outcome
        self.over = not self._message_id and not self._under_way

    def due(self) -> float:
        waits = bool(self._message_id) and self._outcome is None
        return NEVER if self.over or waits else AT_ONCE

    def call(self, now: float) -> Call:
        self._under_way = True
        if not self._message_id:
            return Send(self._asked(), formatted=True, buttons=self._buttons)
        settled = self._closing_with(_OUTCOMES[self._outcome or "expired"])
        return Edit(self._message_id, settled, formatted=True) if self._can_edit else Send(settled, True)

    def done(self, call: Call, message_id: str, now: float) -> None:
        self._under_way = False
        self._failing_since = None
        self.over = bool(self._message_id)
        self._message_id = message_id
        if self.over:
            self._close_entry()
        elif self._can_edit and (entry := self._new_entry(self._closing_with(_LEFT_OPEN))):
            self.entry = entry
            entry.note(DeliveryProgress(shown_in=(message_id,), is_streaming=True))

    def put_off(self) -> None:
        super().put_off()
        self._under_way = False
        if self._outcome:
            self.settle(self._outcome)

    def failed(self, call: Call, error: DeliveryError, now: float) -> str:
        self._under_way = False
        if isinstance(error, Unreachable):
            self._doubtful |= error.maybe_done
        is_asking = not self._message_id
        is_futile = not isinstance(error, Unreachable) or self._is_hopeless(now)
        self.lost = isinstance(error, Undeliverable)
        self.over = is_futile or (is_asking and self._outcome is not None)
        if self.over:
            self._close_entry()
        return _REFUSED if is_asking and isinstance(error, ContentRefused) else ""

    def _close_entry(self) -> None:
        if self.entry:
            self.entry.close()

    def _closing_with(self, outcome: str) -> str:
        return f"{outcome}: {self._tool}\n{self._code}"

    def _asked(self) -> str:
        lines = [POSSIBLY_TWICE] if self._doubtful else []
        lines += [f"🔐 May I run {self._tool}?", self._code]
        if self.left_out:
            lines.append(f"✂ {self.left_out:,} more characters; all of it is in the file below.")
        minutes = max(1, round((self._expires_at - time.time()) / 60))
        lines.append(f"Without an answer within {minutes} min it does not run.")
        return "\n".join(lines)
