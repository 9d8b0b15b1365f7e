"""A question with buttons that asks for approval before a dangerous tool runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from agent.events import ApprovalAsked
from gateway.chat.delivery.item import IMMEDIATELY, NEVER, POSSIBLY_TWICE, Call, DeliveryItem, Edit, Send
from gateway.chat.delivery.outbox_tracker import OutboxHandle
from gateway.chat.delivery.pacing import ChatTarget
from gateway.chat.errors import ContentRefused, DeliveryError, Undeliverable, Unreachable
from gateway.store.ports import DeliveryProgress
from gateway.text.display import code_block, format_arguments, inline_code
from gateway.text.unicode import prefix_length
from gateway.types import Button

_FRAME_SIZE = 300
"""Room for the sentences and fences around the command."""

ApprovalOutcome = Literal["once", "conversation", "deny", "expired"]

_OUTCOME_TEXTS: dict[ApprovalOutcome, str] = {
    "once": "✅ Allowed once",
    "conversation": "✅ Allowed in this conversation",
    "deny": "🚫 Denied",
    "expired": "⌛ Not answered; not run",
}
_INTERRUPTED = "⌛ No longer open; Hermes was restarted"
_REFUSED = "⚠ The chat service did not take my question whether a tool may run, so it does not run."


class ApprovalMessage(DeliveryItem):
    """Asks, and shows the outcome in the same message. While the question is open, the outbox holds the text that
    replaces it after a crash."""

    def __init__(
        self, target: ChatTarget, event: ApprovalAsked, new_handle: Callable[[str], OutboxHandle | None]
    ) -> None:
        super().__init__(target)
        port = target.port
        self.command = format_arguments(event.arguments)
        self._can_edit = port.can_edit
        self._tool = inline_code(event.tool)
        shown = prefix_length(self.command, port.limit - _FRAME_SIZE, port.measure)
        self.omitted = len(self.command) - shown
        """Characters of the command that do not fit into the message."""
        self._code = code_block(self.command[:shown])
        self._expires_at = event.expires_at
        self._buttons = tuple(
            Button(label, f"approve:{event.approval_id}:{choice}")
            for label, choice in (("Once", "once"), ("This conversation", "conversation"), ("Deny", "deny"))
        )
        self._new_handle = new_handle
        self._outcome: ApprovalOutcome | None = None
        self._message_id = ""
        self._in_flight = self._maybe_sent = False

    @property
    def is_open(self) -> bool:
        return not self.finished and self._outcome is None

    @property
    def blocks_later(self) -> bool:
        return not self.finished and not self._message_id

    def settle(self, outcome: ApprovalOutcome) -> None:
        """Record the first outcome. A question that was not sent yet is not sent any more."""
        self._outcome = self._outcome or outcome
        self.finished = not self._message_id and not self._in_flight

    def due(self) -> float:
        is_waiting = bool(self._message_id) and self._outcome is None
        return NEVER if self.finished or is_waiting else IMMEDIATELY

    def next_call(self, now: float) -> Call:
        self._in_flight = True
        if not self._message_id:
            return Send(self._question_text(), formatted=True, buttons=self._buttons)
        settled = self._settled_text(_OUTCOME_TEXTS[self._outcome or "expired"])
        return Edit(self._message_id, settled, formatted=True) if self._can_edit else Send(settled, True)

    def on_success(self, call: Call, message_id: str, now: float) -> None:
        self._in_flight = False
        self._failing_since = None
        self.finished = bool(self._message_id)
        self._message_id = message_id
        if self.finished:
            self._complete_handle()
        elif self._can_edit and (handle := self._new_handle(self._settled_text(_INTERRUPTED))):
            self.handle = handle
            handle.update(DeliveryProgress(shown_in=(message_id,), is_streaming=True))

    def reschedule(self) -> None:
        super().reschedule()
        self._in_flight = False
        if self._outcome:
            self.settle(self._outcome)

    def on_error(self, call: Call, error: DeliveryError, now: float) -> str:
        self._in_flight = False
        if isinstance(error, Unreachable):
            self._maybe_sent |= error.maybe_done
        is_question = not self._message_id
        is_permanent = not isinstance(error, Unreachable) or self._has_timed_out(now)
        self.failed = isinstance(error, Undeliverable)
        self.finished = is_permanent or (is_question and self._outcome is not None)
        if self.finished:
            self._complete_handle()
        return _REFUSED if is_question and isinstance(error, ContentRefused) else ""

    def _complete_handle(self) -> None:
        if self.handle:
            self.handle.complete()

    def _settled_text(self, outcome: str) -> str:
        return f"{outcome}: {self._tool}\n{self._code}"

    def _question_text(self) -> str:
        lines = [POSSIBLY_TWICE] if self._maybe_sent else []
        lines += [f"🔐 May I run {self._tool}?", self._code]
        if self.omitted:
            lines.append(f"✂ {self.omitted:,} more characters; all of it is in the file below.")
        minutes = max(1, round((self._expires_at - time.time()) / 60))
        lines.append(f"Without an answer within {minutes} min it does not run.")
        return "\n".join(lines)
