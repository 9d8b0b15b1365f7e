"""Turns the events of a conversation into messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from agent.events import (
    ApprovalAsked,
    ApprovalSettled,
    Compacted,
    FileSent,
    Notice,
    Queued,
    Steered,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnEvent,
    TurnFailed,
    TurnStarted,
)
from agent.ids import new_id
from gateway.chat.delivery.file_message import FileMessage, workspace_reader
from gateway.chat.delivery.item import DeliveryItem, OutboxHandle, OutboxTracker
from gateway.chat.delivery.pacing import ChatTarget, ChatTargets
from gateway.chat.delivery.send_queue import SendQueue
from gateway.chat.delivery.status_message import ApprovalMessage, QueuedNotice, StaleMessage, ToolStatus
from gateway.chat.delivery.text_message import Style, TextMessage
from gateway.store.ports import UNREADABLE, OutboxItem, OutboxKind, file_from
from gateway.text.code_blocks import find_long_code
from gateway.text.unicode import is_blank
from gateway.types import Place

_STOPPED = "Stopped."
_NOT_DELETED = "⚠ The last text above is only a part of an answer; it could not be deleted."
_WHOLE_CODE = "The code above, in one piece."
_MAX_CAPTION = 1_000
"""Services truncate or refuse longer captions."""


class TurnView:
    """The visible messages of one conversation, in its chat."""

    def __init__(
        self,
        conversation_id: str,
        target: ChatTarget,
        tracker: OutboxTracker,
        *,
        streaming: bool,
        platform_id: Callable[[str], str],
    ) -> None:
        """`platform_id` returns the service's id for one of our message ids, or an empty string."""
        self.target = target
        self.tracker = tracker
        self.running = False
        self._conversation_id = conversation_id
        self._next_target = target
        self.set_streaming(streaming)
        self._platform_id = platform_id
        self._tool_status = ToolStatus(target, self._transient_handle)
        self._queued_notice = QueuedNotice(target, self._transient_handle)
        self.queue = SendQueue(tracker, (self._queued_notice, self._tool_status), conversation_id)
        self._turn_id = self._step_id = ""
        self._maybe_sent: set[str] = set()
        """Turns whose earlier attempt may have sent a part of the text that the model now writes again."""
        self._answer: TextMessage | None = None
        self._step_text: list[str] = []
        """The text of the model's current step, in chunks."""
        self._approvals: dict[str, ApprovalMessage] = {}
        self._reply_to = ""
        self._stop_confirmed = False
        """The reply to /stop was shown already."""

    def set_streaming(self, on: bool) -> None:
        """Choose whether later texts are shown while they grow."""
        self._streams = on and self.target.port.can_edit

    @property
    def wants_typing(self) -> bool:
        """Whether the turn runs and nothing visible shows it."""
        is_writing = self._answer is not None and self._answer.is_visible
        is_asking = any(approval.is_open for approval in self._approvals.values())
        shows_activity = is_writing or is_asking or self._tool_status.is_visible
        return self.running and not shows_activity and not self.queue.abandoned_because

    def move(self, target: ChatTarget) -> None:
        """Continue in another chat, after the running turn."""
        self._next_target = target
        if not self.running:
            self._apply_move()

    def restore(self, items: Iterable[OutboxItem], targets: ChatTargets) -> None:
        """Queue the outbox items that an earlier process left, before anything new."""
        turn_id = None
        for item in items:
            if item.content is None and item.kind == "text":
                self._maybe_sent.add(item.turn_id)
            elif handle := self.tracker.handle(item):
                if item.turn_id != turn_id:
                    turn_id = item.turn_id
                    self.queue.start_turn()
                    self.queue.turn_id = item.turn_id
                if restored := _restore_item(handle, targets.get(item.place)):
                    self.queue.add(restored)

    def apply(self, event: TurnEvent, now: float) -> None:
        if isinstance(event, TurnStarted) or not self.running:
            self.queue.start_turn()
        if not self.queue.abandoned_because:
            self._show(event, now)
        else:
            self._skip(event)

    def finish(self) -> None:
        """Finish all messages: no more events will come."""
        self._suspend()
        self._end_turn()
        self._queued_notice.hide()

    def _skip(self, event: TurnEvent) -> None:
        """Park the unsent items of an abandoned turn."""
        match event:
            case StepStarted():
                self._start_step(event)
            case TextDelta() if self._answer is None:
                self._park("text", self._step_id)
                self._step_id = ""
            case FileSent():
                self._park("file", event.outbox_id)
            case Notice():
                self._park("notice", event.outbox_id)
            case TurnDone():
                self._end_turn()
            case TurnFailed():
                self._park("notice", event.outbox_id)
                self._end_turn()

    def _show(self, event: TurnEvent, now: float) -> None:
        match event:
            case TurnStarted():
                self._start_turn(event)
            case Queued():
                self._queued_notice.add(event, self._platform_id(event.message_id))
            case Steered():
                self._queued_notice.remove(event.message_id)
            case StepStarted():
                self._start_step(event)
            case TextDelta():
                self._write(event.text, now)
            case ToolStarted():
                self._end_step()
                if self._streams:
                    self._tool_status.start(event, now)
            case ToolFinished():
                self._tool_status.finish(event.call_id)
            case ApprovalAsked():
                self._add_approval(event)
            case ApprovalSettled():
                if approval := self._approvals.pop(event.approval_id, None):
                    approval.settle(event.choice)
                if not self._approvals:
                    self._tool_status.resume(now)
            case FileSent():
                self._add_file(event)
            case Compacted():
                before, after = event.messages_before, event.messages_after
                self._add_notice(f"🗜 Condensed {before} → {after} messages; everything stays searchable.")
            case Notice():
                self._stop_confirmed = event.text == _STOPPED
                self._add_notice(event.text, handle=self._durable_handle("notice", event.outbox_id))
            case TurnDone():
                self._finish_turn(event, now)
            case TurnFailed():
                self._fail_turn(event)

    # -- a turn ----------------------------------------------------------------------------------------------

    def _start_turn(self, event: TurnStarted) -> None:
        if self.running:  # the end of the last turn was not published
            if event.message_id == self._turn_id:
                self._retract()
            self._end_turn()
        self._apply_move()
        self.running, self._stop_confirmed = True, False
        self._turn_id = self.queue.turn_id = event.message_id
        was_queued = self._queued_notice.remove(event.message_id)
        in_group = self.target.place.kind == "group"
        self._reply_to = self._platform_id(event.message_id) if in_group or was_queued else ""
        self._tool_status.set_reply_to(self._reply_to)

    def _start_step(self, event: StepStarted) -> None:
        if event.message_id != self._step_id:
            self._end_step()
            self._step_id = event.message_id

    def _write(self, text: str, now: float) -> None:
        self._step_text.append(text)
        if self._answer is None:
            if is_blank(text):  # models often begin with an empty line, which is not a message
                return
            text = "".join(self._step_text)
            reply_to, self._reply_to = self._reply_to, ""
            maybe_sent = self._turn_id in self._maybe_sent
            self._maybe_sent.discard(self._turn_id)
            self._answer = TextMessage(
                self.target,
                Style(streaming=self._streams),
                reply_to=reply_to,
                adopt=lambda now: self._tool_status.release_message(self.queue.newest_id, now),
                handle=self._durable_handle("text", self._step_id),
                maybe_sent=maybe_sent,
            )
            self._tool_status.set_reply_to("")
            self.queue.add(self._answer)
        self._answer.add(text, now)

    def _finish_turn(self, event: TurnDone, now: float) -> None:
        written = "".join(self._step_text)
        if event.text.startswith(written) and event.text != written:
            self._write(event.text[len(written) :], now)
        self._end_turn()
        for code in find_long_code(event.text, longer_than=self.target.port.limit):
            self._queue_file(code.name, partial(code.content.encode, "utf-8", "replace"), _WHOLE_CODE)
        if event.stopped and not self._stop_confirmed:
            self._add_notice(_STOPPED)

    def _fail_turn(self, event: TurnFailed) -> None:
        if not event.outbox_id:
            # The failure is not stored: after a restart the model writes the answer again.
            self._suspend()
        elif event.retracts:
            self._retract(_NOT_DELETED)
        self._end_turn()
        handle = self._durable_handle("notice", event.outbox_id)
        self._add_notice(f"⚠ {event.error}", silent=False, handle=handle)

    def _retract(self, notice: str = "") -> None:
        """Delete the unfinished answer. `notice` is sent if it cannot be deleted."""
        answer, self._answer = self._answer, None
        if answer is not None and answer.retract(notice):
            self._maybe_sent.add(self._turn_id)

    def _suspend(self) -> None:
        if self._answer is not None:
            self._answer.suspend()
        self._answer = None

    def _end_step(self) -> None:
        if self._answer is not None:
            self._answer.close()
        self._answer = None
        self._step_id = ""
        self._step_text.clear()

    def _end_turn(self) -> None:
        self._end_step()
        self._tool_status.end_turn()
        self._queued_notice.end_turn()
        for approval in self._approvals.values():
            approval.settle("expired")
        self._approvals.clear()
        self.running = False

    def _apply_move(self) -> None:
        self.target = self._next_target
        self._tool_status.move(self.target)
        self._queued_notice.move(self.target)

    # -- other messages --------------------------------------------------------------------------------------

    def _add_approval(self, event: ApprovalAsked) -> None:
        self._tool_status.pause()
        approval = ApprovalMessage(self.target, event, partial(self._transient_handle, self.target.place))
        self._approvals[event.approval_id] = approval
        self.queue.add(approval)
        if approval.omitted:
            self._queue_file("command.txt", partial(approval.command.encode, "utf-8", "replace"))

    def _add_file(self, event: FileSent) -> None:
        has_long_caption = len(event.caption) > _MAX_CAPTION
        caption = "" if has_long_caption else event.caption
        handle = self._durable_handle("file", event.outbox_id)
        self._queue_file(event.name, workspace_reader(event), caption, handle)
        if has_long_caption:
            self._add_notice(event.caption)

    def _queue_file(
        self, name: str, read: Callable[[], bytes], caption: str = "", handle: OutboxHandle | None = None
    ) -> None:
        self.queue.add(FileMessage(self.target, name, read, caption, handle=handle))

    def _add_notice(self, text: str, *, silent: bool = True, handle: OutboxHandle | None = None) -> None:
        self.queue.add(TextMessage(self.target, Style(silent=silent), text=text, handle=handle))

    # -- the outbox ------------------------------------------------------------------------------------------

    def _durable_handle(self, kind: OutboxKind, outbox_id: str) -> OutboxHandle | None:
        """Return None for an item without an id: it is delivered as best effort."""
        return self._handle(self.target.place, kind, outbox_id) if outbox_id else None

    def _transient_handle(self, place: Place, final_text: str | None = None) -> OutboxHandle | None:
        return self._handle(place, "transient", new_id("out"), final_text)

    def _handle(
        self, place: Place, kind: OutboxKind, outbox_id: str, content: str | None = None
    ) -> OutboxHandle | None:
        reply_to = self._platform_id(self._turn_id)
        return self.tracker.handle(
            OutboxItem(outbox_id, self._conversation_id, self._turn_id, reply_to, place, kind, content)
        )

    def _park(self, kind: OutboxKind, outbox_id: str) -> None:
        if handle := self._durable_handle(kind, outbox_id):
            handle.park(self.queue.abandoned_because)


def _restore_item(handle: OutboxHandle, target: ChatTarget) -> DeliveryItem | None:
    """Rebuild the delivery item of an outbox item with known content, or of a transient one. Park an unreadable one and
    return None."""
    item = handle.item
    progress, content = item.progress, item.content or ""
    if item.kind == "transient":
        return StaleMessage(target, handle)
    if item.kind == "file":
        try:
            file = file_from(content)
        except ValueError:
            handle.park(UNREADABLE)
            return None
        maybe_sent = progress.state == "sending"
        read = workspace_reader(file)
        return FileMessage(target, file.name, read, file.caption, handle=handle, maybe_sent=maybe_sent)
    is_silent = item.kind == "notice" and not content.startswith("⚠")
    return TextMessage(
        target,
        Style(silent=is_silent),
        text=progress.remainder + content[progress.sent_chars :],
        reply_to="" if progress.shown_in else item.reply_to,
        handle=handle,
        progress=progress,
    )
