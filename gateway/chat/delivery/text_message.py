"""A text that grows in a chat message by edits and continues in the next message when that one is full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

import structlog

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
from gateway.store.ports import DeliveryProgress, DeliveryState
from gateway.text.code_blocks import Fence, opening_fence
from gateway.text.splitter import split_first
from gateway.text.unicode import Measure, is_blank
from gateway.types import Button


@dataclass(slots=True)
class MessageBuffer:
    measure: Measure
    length: int = 0
    """Characters of the text."""
    size: int = 0
    """The length as the service counts it."""
    started_at: float | None = None
    """When the first visible character came."""
    message_id: str = ""
    visible: int = 0
    """Characters that the service has confirmed to show."""
    unsplit: int = 0
    """The length at which the splitter last found no place to cut."""
    partial_refused: bool = False
    """The service refused the unfinished text; it may accept the finished one."""
    maybe_sent: bool = False
    """A send call may or may not have arrived."""
    maybe_sent_length: int = 0
    """Leading characters that such a call contained, if that is known."""
    maybe_edited: bool = False
    """An edit may or may not have arrived."""
    _parts: list[str] = field(default_factory=list)

    def add(self, text: str, now: float) -> None:
        """Append text in constant time: the parts are joined only when the text is read."""
        self._parts.append(text)
        self.length += len(text)
        self.size += self.measure(text)
        if self.started_at is None and not is_blank(text):
            self.started_at = now

    def text(self) -> str:
        self._parts = ["".join(self._parts)]
        return self._parts[0]

    def hidden_text(self, length: int) -> str:
        """Return the characters up to `length` that are not visible, for another message. If the visible text ends in
        a code block, reopen it."""
        visible, hidden = self.text()[: self.visible], self.text()[self.visible : length]
        fence = _unclosed_fence(visible) if hidden and visible else None
        if fence is None:
            return hidden
        return fence.reopening_line + ("" if hidden.startswith("\n") else "\n") + hidden


def common_suffix_length(one: str, other: str) -> int:
    """Return the length of the longest common suffix, by bisection."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        length = (least + most + 1) // 2
        if one.endswith(other[len(other) - length :]):
            least = length
        else:
            most = length - 1
    return least


def _unclosed_fence(text: str) -> Fence | None:
    fence: Fence | None = None
    for line in text.split("\n"):
        if fence and fence.is_outside_quote(line):
            fence = None
        if fence is None:
            fence = opening_fence(line)
        elif fence.is_closed_by(line):
            fence = None
    return fence


log = structlog.get_logger(__name__)

CURSOR = " ▌"
"""Follows a text that is still being written; no model ends a sentence with it."""

_MARK = POSSIBLY_TWICE + "\n\n"
_REFUSED = "⚠ The chat service did not take a part of this text; it is kept in the conversation."
_PARTLY_REFUSED = "The chat service did not take a part of it."


@dataclass(frozen=True, slots=True)
class Style:
    silent: bool = False
    streaming: bool = False
    """Show the text while it grows."""
    is_fallback: bool = False
    """The text replaces one that was refused; if the service refuses it, too, nothing replaces it."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The text that the call in flight shows."""

    length: int
    """Characters of the buffer that the call covers."""
    is_final: bool
    remainder: str = ""
    """The end of those characters, which does not fit into the final message."""


class TextMessage(DeliveryItem):
    """Markdown, shown as plain text while it grows and formatted once it is finished.

    `text` is the complete text if it is known; after a restart, the text that `progress` leaves to be sent. `reply_to`
    applies to the first message, `buttons` to the last. `adopt` returns the id of a message that this text may replace
    by an edit, or an empty string. `maybe_sent`: an earlier process may have sent the text.
    """

    def __init__(
        self,
        target: ChatTarget,
        style: Style,
        *,
        text: str | None = None,
        reply_to: str = "",
        buttons: Sequence[Button] = (),
        adopt: Callable[[float], str] = lambda now: "",
        handle: OutboxHandle | None = None,
        progress: DeliveryProgress | None = None,
        maybe_sent: bool = False,
    ) -> None:
        super().__init__(target, handle)
        self.last_id = ""
        """The newest message that shows a part of the text."""
        self._port = target.port
        self._capacity = target.port.limit - target.port.measure(_MARK)
        """Leaves room for the mark in every message, so that a message that is sent again ends where it did before."""
        self._style = style
        self._reply_to = reply_to
        self._buttons = tuple(buttons)
        self._adopt = adopt
        self._closed = self._suspended = self._retracted = self._refused = False
        self._retract_notice = ""
        self._last_call = -inf
        self._attempt: _Attempt | None = None
        self._orphan_id = ""
        """A message that must be deleted because it cannot become a part of the text."""
        progress = progress or DeliveryProgress()
        self._message_ids = list(progress.shown_in)
        self._sent_chars = progress.sent_chars
        """The offset in the text at which the buffer begins, apart from the `_remainder` at its front."""
        self._remainder = progress.remainder
        self._maybe_sent = maybe_sent or progress.state == "sending"
        self._buffer = MessageBuffer(target.port.measure, maybe_sent=self._maybe_sent)
        if progress.is_streaming and is_blank(text or ""):
            self._orphan_id = progress.shown_in[-1]
        elif progress.is_streaming:
            # The text that this message shows is unknown. If it cannot be edited, another message repeats all of it.
            self._buffer.message_id = progress.shown_in[-1]
            self._buffer.maybe_edited = True
        if style.streaming:
            target.pacer.streaming.add(self)
        if text is not None:
            self.add(text, IMMEDIATELY)
            self.close()

    # -- the text --------------------------------------------------------------------------------------------

    def add(self, text: str, now: float) -> None:
        self._buffer.add(text, now)

    def close(self) -> None:
        """Mark the text as complete."""
        self._closed = True
        self.target.pacer.streaming.discard(self)
        self._update_finished()
        self._save()

    def suspend(self) -> None:
        """Leave the text readable as it is: the next process completes or deletes it."""
        self._suspended = self.handle is not None
        self.close()

    def retract(self, notice: str = "") -> bool:
        """Delete all messages of the text. Return whether a message may exist whose id is unknown. `notice` is sent if
        a message cannot be deleted."""
        self._retract_notice = notice
        is_sending = self._attempt is not None and not self._buffer.message_id
        self._maybe_sent |= self._buffer.maybe_sent or is_sending
        self._retracted = self._closed = True
        self.target.pacer.streaming.discard(self)
        self._buffer = MessageBuffer(self._port.measure)
        self._delete_next()
        self._save()
        return self._maybe_sent

    @property
    def is_visible(self) -> bool:
        return bool(self._buffer.message_id)

    @property
    def blocks_later(self) -> bool:
        """While the text grows, other items may be sent below it."""
        return not self.finished and self._can_finish_message

    @property
    def _can_finish_message(self) -> bool:
        buffer = self._buffer
        is_full = self._style.streaming and buffer.size > self._capacity and buffer.length > buffer.unsplit
        return self._closed or is_full

    # -- calls -----------------------------------------------------------------------------------------------

    def due(self) -> float:
        buffer, pacer = self._buffer, self.target.pacer
        if self.finished:
            return NEVER
        if self._can_finish_message or self._orphan_id:
            return self._last_call + (pacer.gap_before_finish if buffer.message_id else pacer.message_gap)
        if not self._style.streaming or buffer.partial_refused:
            return NEVER
        if buffer.started_at is None or buffer.length == buffer.visible:
            return NEVER
        next_edit = self._last_call + pacer.edit_interval
        first_text = buffer.started_at + self.target.timing.first_text
        return next_edit if buffer.message_id else max(next_edit, first_text)

    def next_call(self, now: float) -> Call:
        if self._orphan_id:
            return Delete(self._orphan_id)
        buffer = self._buffer
        piece, remainder = split_first(buffer.text(), self._capacity, self._port.measure)
        if not buffer.message_id and (adopted := self._adopt(now)):
            buffer.message_id = adopted
            self._message_ids.append(adopted)
        shown = (_MARK if buffer.maybe_sent else "") + piece
        is_final = self._closed or bool(remainder)
        self._attempt = _Attempt(buffer.length, is_final, remainder)
        self._save()
        if is_final:
            is_last = self._closed and not remainder
            return self._show(shown, formatted=True, buttons=self._buttons if is_last else ())
        buffer.unsplit = buffer.length
        fits = self._port.measure(shown + CURSOR) <= self._port.limit
        return self._show(shown + CURSOR if fits else shown)

    def _show(self, text: str, *, formatted: bool = False, buttons: tuple[Button, ...] = ()) -> Call:
        if self._buffer.message_id:
            return Edit(self._buffer.message_id, text, formatted, buttons)
        return Send(text, formatted, self._reply_to, buttons, self._style.silent)

    def _save(self) -> None:
        if self.handle and self._retracted and self.finished:
            self.handle.discard()
        elif self.handle and not self.failed:
            self.handle.update(self._progress())

    def _progress(self) -> DeliveryProgress:
        if self._retracted:
            left = tuple(self._message_ids)
            return DeliveryProgress(
                "sending" if self._maybe_sent else "pending", left, is_streaming=bool(left)
            )
        if self.finished and not self._suspended:
            state: DeliveryState = "parked" if self._refused else "sent"
            return DeliveryProgress(
                state, tuple(self._message_ids), reason=_PARTLY_REFUSED if self._refused else ""
            )
        buffer = self._buffer
        is_sending = self._attempt is not None and not buffer.message_id
        # While the model writes, it may have to repeat the text: then the doubt applies to all of it.
        is_complete = self._closed and not self._suspended
        maybe_sent = buffer.maybe_sent or (self._maybe_sent and not is_complete)
        return DeliveryProgress(
            "sending" if is_sending or maybe_sent else "pending",
            tuple(self._message_ids),
            bool(buffer.message_id or self._orphan_id),
            self._sent_chars,
            self._remainder,
        )

    # -- results ---------------------------------------------------------------------------------------------

    def on_success(self, call: Call, message_id: str, now: float) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            self._drop_orphan()
        elif self._retracted:
            self._message_ids += [message_id] * (message_id not in self._message_ids)
        else:
            self._record_shown(attempt, message_id, now)
        self._delete_next()
        self._save()

    def _record_shown(self, attempt: _Attempt, message_id: str, now: float) -> None:
        self._last_call = now
        self._failing_since = None
        self.last_id = message_id
        self._reply_to = ""
        if message_id not in self._message_ids:
            self._message_ids.append(message_id)
        may_grow = self._suspended and not attempt.remainder
        if attempt.is_final and not may_grow:
            self._start_message(attempt.remainder, attempt.length, now)
        else:
            self._buffer.message_id = message_id
            self._buffer.visible = attempt.length
            self._buffer.maybe_edited = False
            self.finished = attempt.is_final

    def reschedule(self) -> None:
        super().reschedule()
        self._attempt = None
        self._update_finished()
        self._delete_next()
        self._save()

    def on_error(self, call: Call, error: DeliveryError, now: float) -> str:
        attempt, self._attempt = self._attempt, None
        notice = ""
        if attempt is None:
            if not self._retracted or not isinstance(error, Unreachable) or self._has_timed_out(now):
                self._drop_orphan()
                if self._retracted and not isinstance(error, MessageGone):
                    notice, self._retract_notice = self._retract_notice, ""
        elif not self._retracted:
            notice = self._handle_error(attempt, call, error, now)
            self._update_finished()
        self._delete_next()
        self._save()
        return notice

    def _handle_error(self, attempt: _Attempt, call: Call, error: DeliveryError, now: float) -> str:
        match error, call:
            case Undeliverable(), _:
                self.failed = True
            case ContentRefused(), _ if not attempt.is_final:
                self._buffer.partial_refused = True
            case ContentRefused(), Edit():
                self._resend(attempt, now)
            case MessageGone(), Edit():
                self._continue_in_new_message(attempt, now)
            case ContentRefused(), _:
                log.warning("chat.text_refused", platform=self._port.platform)
                self._refused = True
                self._start_message(attempt.remainder, attempt.length, now)
                return "" if self._style.is_fallback else _REFUSED
            case _:
                maybe_done = isinstance(error, Unreachable) and error.maybe_done
                self._retry(attempt, call, now, maybe_done=maybe_done)
        return ""

    def _retry(self, attempt: _Attempt, call: Call, now: float, *, maybe_done: bool) -> None:
        """Repeat the call. A repeated edit is harmless; a repeated send may show the message twice."""
        is_edit = isinstance(call, Edit)
        if is_edit:
            self._buffer.maybe_edited |= maybe_done
        else:
            self._buffer.maybe_sent |= maybe_done
            self._maybe_sent |= maybe_done
        if maybe_done and not is_edit:
            suffix = common_suffix_length(self._buffer.text()[: attempt.length], attempt.remainder)
            self._buffer.maybe_sent_length = max(self._buffer.maybe_sent_length, attempt.length - suffix)
        if not attempt.is_final or not self._has_timed_out(now):
            return
        if is_edit:
            self._failing_since = None
            self._continue_in_new_message(attempt, now)
        else:
            self.failed = True

    def _resend(self, attempt: _Attempt, now: float) -> None:
        """Delete the message whose edit was refused and send its text in a new one, which may be accepted."""
        old = self._buffer
        self._orphan_id = old.message_id
        self._start_message(old.text()[: attempt.length], attempt.length, now)
        self._buffer.maybe_sent |= old.maybe_sent

    def _continue_in_new_message(self, attempt: _Attempt, now: float) -> None:
        """Leave the message as it is and send the text that it does not show in a new one."""
        old = self._buffer
        if not old.visible:
            self._orphan_id = old.message_id
        hidden = old.hidden_text(attempt.length)
        if attempt.is_final and old.maybe_edited and len(attempt.remainder) >= len(hidden):
            # The message may show its final text, which ends earlier than the unfinished text did.
            hidden = attempt.remainder
        self._start_message(hidden, attempt.length, now)
        self._buffer.maybe_sent |= old.maybe_edited

    def _start_message(self, remainder: str, length: int, now: float) -> None:
        """Start a message with the remainder of the first `length` characters and the text that came after them."""
        old, text = self._buffer, self._buffer.text()
        unchanged = common_suffix_length(text[:length], remainder)
        of_the_text = length - len(self._remainder)
        repeated = min(of_the_text, unchanged)
        self._sent_chars += of_the_text - repeated
        self._remainder = remainder[: len(remainder) - repeated]
        self._buffer = MessageBuffer(self._port.measure)
        self._buffer.add(remainder + text[length:], now)
        still_doubtful = old.maybe_sent_length - (length - unchanged)
        if still_doubtful > 0:
            self._buffer.maybe_sent = True
            self._buffer.maybe_sent_length = len(remainder) - unchanged + still_doubtful
        self._update_finished()

    def _drop_orphan(self) -> None:
        self._message_ids.remove(self._orphan_id)
        self._orphan_id = ""
        self._update_finished()

    def _delete_next(self) -> None:
        """If the text is retracted, select the next message to delete."""
        if self._retracted:
            is_idle = self._attempt is None
            self._orphan_id = self._message_ids[-1] if is_idle and self._message_ids else ""
            self.finished = is_idle and not self._orphan_id

    def _update_finished(self) -> None:
        buffer = self._buffer
        is_hidden = not buffer.message_id and self._attempt is None
        is_empty = buffer.started_at is None or (self._suspended and is_hidden)
        self.finished = self.failed or (self._closed and is_empty and not self._orphan_id)
