"""Messages that change or disappear: running tools, queued messages, questions for approval."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from math import inf
from typing import Literal

from agent.events import ApprovalAsked, Queued, ToolStarted
from agent.redaction import own_rules, redact
from gateway.chat.delivery.item import (
    IMMEDIATELY,
    NEVER,
    POSSIBLY_TWICE,
    Call,
    Delete,
    DeliveryItem,
    Edit,
    OutboxHandle,
    Send,
)
from gateway.chat.delivery.pacing import ChatTarget
from gateway.chat.errors import ContentRefused, DeliveryError, MessageGone, Undeliverable, Unreachable
from gateway.store.ports import DeliveryProgress
from gateway.text.display import code_block, format_arguments, inline_code, one_line, summarize_arguments
from gateway.text.unicode import prefix_length
from gateway.types import Button, Place

NewHandle = Callable[[Place], OutboxHandle | None]


class TransientMessage(DeliveryItem):
    """At most one visible message, delivered as best effort. The outbox records only that it is there, so that the next
    process deletes it after a crash."""

    def __init__(self, target: ChatTarget, new_handle: NewHandle) -> None:
        super().__init__(target)
        self._new_handle = new_handle
        self._can_edit = target.port.can_edit
        self._wanted_text = ""
        self._not_before = IMMEDIATELY
        self._reply_to = ""
        self._clear_message()
        self._muted = False

    @property
    def blocks_later(self) -> bool:
        return False

    @property
    def is_visible(self) -> bool:
        return bool(self._message_id)

    def hide(self) -> None:
        self._wanted_text = ""
        self._muted = False

    def move(self, target: ChatTarget) -> None:
        """Use another target for the next message; a visible message stays where it is."""
        if not self._message_id:
            self.target = target

    def reset(self) -> None:
        """Forget the visible message."""
        self.hide()
        self._clear_message()

    def due(self) -> float:
        if self._message_id:
            if self._wanted_text == self._shown_text or not self._can_edit:
                return NEVER
            if not self._wanted_text:
                return IMMEDIATELY
            return NEVER if self._muted else self._last_call + self.target.pacer.edit_interval
        return self._not_before if self._wanted_text and not self._muted else NEVER

    def next_call(self, now: float) -> Call:
        if not self._wanted_text:
            return Delete(self._message_id)
        if self._message_id:
            return Edit(self._message_id, self._wanted_text)
        return Send(self._wanted_text, reply_to=self._reply_to, silent=True)

    def on_success(self, call: Call, message_id: str, now: float) -> None:
        self._last_call = now
        self._failing_since = None
        match call:
            case Delete():
                self._clear_message()
            case Edit():
                self._shown_text = call.text
            case Send():
                self._message_id, self._shown_text, self._sent_at = message_id, call.text, now
                self.handle = self._new_handle(self.target.place) if self._can_edit else None
                if self.handle:
                    self.handle.update(DeliveryProgress(shown_in=(message_id,), is_streaming=True))

    def on_error(self, call: Call, error: DeliveryError, now: float) -> str:
        if isinstance(call, Delete):
            if not isinstance(error, Unreachable) or self._has_timed_out(now):
                self._clear_message()
            return ""
        self._muted = True
        if isinstance(error, MessageGone):
            self._clear_message()
        return ""

    def _clear_message(self) -> None:
        self._complete_handle()
        self._failing_since = None
        self._message_id = self._shown_text = ""
        self._sent_at = self._last_call = -inf


_MAX_STATUS_LENGTH = 60
_MAX_SEARCHED = 2_000
"""Characters of the arguments that are redacted: this runs on the event loop."""


class ToolStatus(TransientMessage):
    """Shows the running tools once they take long. The text that follows replaces it, or it disappears."""

    def __init__(self, target: ChatTarget, new_handle: NewHandle) -> None:
        super().__init__(target, new_handle)
        self._running: dict[str, ToolStarted] = {}
        self._paused = False

    def set_reply_to(self, message_id: str) -> None:
        """Reply to this message, because the status may become the answer to it."""
        self._reply_to = message_id

    def start(self, event: ToolStarted, now: float) -> None:
        if not self._running:
            self._not_before = now + self.target.timing.status_after
        self._running[event.call_id] = event
        self._update()

    def finish(self, call_id: str) -> None:
        """Remove a tool. The last one stays visible until something else is shown."""
        self._running.pop(call_id, None)
        if self._running:
            self._update()
        elif not self.is_visible:
            self.hide()

    def pause(self) -> None:
        """Hide the status while an approval is open: no tool runs then."""
        self._paused = True
        self.hide()

    def resume(self, now: float) -> None:
        self._paused = False
        self._not_before = now + self.target.timing.status_after
        self._update()

    def end_turn(self) -> None:
        self._running.clear()
        self._paused = False
        self.hide()

    def release_message(self, newest_id: str, now: float) -> str:
        """Return the id of the message if a text may replace it: it is the newest message and recent enough that the
        text needs no notification. Otherwise hide it and return an empty string."""
        message_id = self._message_id
        is_recent = now - self._sent_at < self.target.timing.notify_after
        self.hide()
        if message_id != newest_id or not is_recent:
            return ""
        self._clear_message()
        return message_id

    def _update(self) -> None:
        if self._running and not self._paused:
            self._wanted_text = tool_status_text(list(self._running.values()))


def tool_status_text(calls: Sequence[ToolStarted]) -> str:
    """Describe the running tools: one with its arguments, several by name."""
    if len(calls) > 1:
        counts = Counter(one_line(call.name, _MAX_STATUS_LENGTH) for call in calls)
        names = ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in counts.items())
        return f"⚙ {one_line(names, _MAX_STATUS_LENGTH)}"
    searched = summarize_arguments(calls[0].arguments)[:_MAX_SEARCHED]
    arguments = one_line(redact(searched, own_rules()), _MAX_STATUS_LENGTH)
    return f"⚙ {one_line(calls[0].name, _MAX_STATUS_LENGTH)}{': ' if arguments else ''}{arguments}"


class QueuedNotice(TransientMessage):
    """Acknowledges all queued messages in one message; disappears when the last of them is processed."""

    def __init__(self, target: ChatTarget, new_handle: NewHandle) -> None:
        super().__init__(target, new_handle)
        self._ahead: dict[str, int] = {}
        """Turns before each queued message, by message id."""
        self._steers = False

    def add(self, event: Queued, reply_to: str) -> None:
        if event.how == "interrupt":  # the turn stops visibly
            return
        if not self._ahead:
            self._reply_to = reply_to
        self._ahead[event.message_id] = event.ahead
        self._steers = event.how == "steer"
        self._update()

    def remove(self, message_id: str) -> bool:
        """Remove a message; return whether it was queued."""
        if self._ahead.pop(message_id, None) is None:
            return False
        self._update()
        return True

    def reset(self) -> None:
        super().reset()
        self._ahead.clear()

    def end_turn(self) -> None:
        for message_id, ahead in self._ahead.items():
            self._ahead[message_id] = max(1, ahead - 1)

    def _update(self) -> None:
        if not self._ahead:
            self.hide()
            return
        one = len(self._ahead) == 1
        which, it = ("", "it") if one else (f", {len(self._ahead)} messages", "them")
        if self._steers:
            self._wanted_text = f"⏳ Noted{which}; I take {it} into account at the next step."
        else:
            nearest = min(self._ahead.values())
            turns = "this one" if nearest <= 1 else f"{nearest} others"
            self._wanted_text = f"⏳ Noted{which}; I answer {it} after {turns}."


class StaleMessage(DeliveryItem):
    """Messages of an earlier process that must not stay: each is deleted, or edited to its final text."""

    def __init__(self, target: ChatTarget, handle: OutboxHandle) -> None:
        super().__init__(target, handle)
        self._final_text = handle.item.content or ""
        self._message_ids = list(handle.item.progress.shown_in) if target.port.can_edit else []
        self._not_before = IMMEDIATELY
        self._update_finished()

    @property
    def blocks_later(self) -> bool:
        return False

    def due(self) -> float:
        return NEVER if self.finished else self._not_before

    def next_call(self, now: float) -> Call:
        message_id = self._message_ids[0]
        return Edit(message_id, self._final_text, True) if self._final_text else Delete(message_id)

    def on_success(self, call: Call, message_id: str, now: float) -> None:
        self._failing_since = None
        del self._message_ids[0]
        self._update_finished()

    def on_error(self, call: Call, error: DeliveryError, now: float) -> str:
        if isinstance(error, Unreachable) and not self._has_timed_out(now):
            # Let other items go first if only this call fails.
            self._not_before = now + self.target.timing.max_backoff
        else:
            self.on_success(call, "", now)
        return ""

    def _update_finished(self) -> None:
        self.finished = not self._message_ids
        if self.finished:
            self._complete_handle()


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
