"""Events of a conversation become what should be visible of it."""

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
from gateway.chat.delivery.approval_message import ApprovalMessage
from gateway.chat.delivery.file_message import FileMessage, workspace_reader
from gateway.chat.delivery.outbox_tracker import OutboxHandle, OutboxTracker
from gateway.chat.delivery.pacing import ChatTarget, ChatTargets
from gateway.chat.delivery.restore import restore_item
from gateway.chat.delivery.send_queue import SendQueue
from gateway.chat.delivery.status_message import QueuedNotice, ToolStatus
from gateway.chat.delivery.text_message import Style, TextMessage
from gateway.store.ports import Kind, OutboxItem
from gateway.text.code_files import find_long_code
from gateway.text.unicode import is_blank
from gateway.types import Place

_STOPPED = "Stopped."
_WHOLE_CODE = "The code above, in one piece."
_LONGEST_CAPTION = 1_000
"""Services cut or refuse longer ones."""


class TurnView:
    """One conversation, in the place where it is held."""

    def __init__(
        self,
        conversation_id: str,
        venue: ChatTarget,
        ledger: OutboxTracker,
        *,
        streaming: bool,
        platform_id: Callable[[str], str],
    ) -> None:
        """`platform_id` gives the service's id for a message of ours, or nothing."""
        self.venue = venue
        self.ledger = ledger
        self.running = False
        self._conversation_id = conversation_id
        self._next_venue = venue
        self.stream(streaming)
        self._platform_id = platform_id
        self._tools = ToolStatus(venue, self._passing_entry)
        self._acknowledgement = QueuedNotice(venue, self._passing_entry)
        self.stage = SendQueue((self._acknowledgement, self._tools), conversation_id)
        self._turn_id = self._step_id = ""
        self._in_doubt: set[str] = set()
        """Turns of which an earlier attempt may have begun to show a text that is written anew now."""
        self._answer: TextMessage | None = None
        self._said: list[str] = []
        """The text of the model's present step, as it came."""
        self._questions: dict[str, ApprovalMessage] = {}
        self._reply_to = ""
        self._stop_told = False
        """The answer to /stop has said it already."""

    def stream(self, on: bool) -> None:
        """Whether passages from now on grow as they are written."""
        self._streams = on and self.venue.port.can_edit

    @property
    def wants_typing(self) -> bool:
        """The turn works, and nothing else shows that it does."""
        is_writing = self._answer is not None and self._answer.is_visible
        is_asking = any(question.is_open for question in self._questions.values())
        is_shown = is_writing or is_asking or self._tools.is_visible
        return self.running and not is_shown and not self.stage.abandoned_because

    def go_to(self, venue: ChatTarget) -> None:
        """The conversation is held there now; a turn that is being shown is not torn apart."""
        self._next_venue = venue
        if not self.running:
            self._change_place()

    def restore(self, left: Iterable[OutboxItem], venues: ChatTargets) -> None:
        """What an earlier process did not bring to its end comes before anything new."""
        turn_id = None
        for outgoing in left:
            if outgoing.content is None and outgoing.kind == "text":
                self._in_doubt.add(outgoing.turn_id)
            elif entry := self.ledger.entry(outgoing):
                if outgoing.turn_id != turn_id:
                    turn_id = outgoing.turn_id
                    self.stage.begin_act()
                    self.stage.turn_id = outgoing.turn_id
                if block := restore_item(entry, venues.at(outgoing.place)):
                    self.stage.add(block)

    def apply(self, event: TurnEvent, now: float) -> None:
        if isinstance(event, TurnStarted) or not self.running:
            self.stage.begin_act()
        if not self.stage.abandoned_because:
            self._show(event, now)
        else:
            self._leave_out(event)

    def finish(self) -> None:
        """No more events will come: what is there is brought to its end."""
        self._cut_short()
        self._end_turn()
        self._acknowledgement.vanish()

    def _leave_out(self, event: TurnEvent) -> None:
        match event:
            case StepStarted():
                self._start_step(event)
            case TextDelta() if self._answer is None:
                self._give_up("text", self._step_id)
                self._step_id = ""
            case FileSent():
                self._give_up("file", event.outbox_id)
            case Notice():
                self._give_up("notice", event.outbox_id)
            case TurnDone():
                self._end_turn()
            case TurnFailed():
                self._give_up("notice", event.outbox_id)
                self._end_turn()

    def _show(self, event: TurnEvent, now: float) -> None:
        match event:
            case TurnStarted():
                self._start_turn(event)
            case Queued():
                self._acknowledgement.queued(event, self._platform_id(event.message_id))
            case Steered():
                self._acknowledgement.taken(event.message_id)
            case StepStarted():
                self._start_step(event)
            case TextDelta():
                self._write(event.text, now)
            case ToolStarted():
                self._end_step()
                if self._streams:
                    self._tools.started(event, now)
            case ToolFinished():
                self._tools.finished(event.call_id)
            case ApprovalAsked():
                self._ask(event)
            case ApprovalSettled():
                self._settle(event, now)
            case FileSent():
                self._give(event)
            case Compacted():
                before, after = event.messages_before, event.messages_after
                self._say(f"🗜 Condensed {before} → {after} messages; everything stays searchable.")
            case Notice():
                self._stop_told = event.text == _STOPPED
                self._say(event.text, entry=self._entry("notice", event.outbox_id))
            case TurnDone():
                self._done(event, now)
            case TurnFailed():
                self._fail(event)

    # -- a turn ----------------------------------------------------------------------------------------------

    def _start_turn(self, event: TurnStarted) -> None:
        if self.running:  # its end was never told
            if event.message_id == self._turn_id:
                self._take_back()
            self._end_turn()
        self._change_place()
        self.running, self._stop_told = True, False
        self._turn_id = self.stage.turn_id = event.message_id
        had_waited = self._acknowledgement.taken(event.message_id)
        in_group = self.venue.place.kind == "group"
        self._reply_to = self._platform_id(event.message_id) if in_group or had_waited else ""
        self._tools.answer(self._reply_to)

    def _start_step(self, event: StepStarted) -> None:
        if event.message_id != self._step_id:
            self._end_step()
            self._step_id = event.message_id

    def _write(self, text: str, now: float) -> None:
        self._said.append(text)
        if self._answer is None:
            if is_blank(text):  # models like to begin with an empty line; alone it is no message
                return
            text = "".join(self._said)
            style = Style(streaming=self._streams)
            reply_to, self._reply_to = self._reply_to, ""
            in_doubt = self._turn_id in self._in_doubt
            self._in_doubt.discard(self._turn_id)
            self._answer = TextMessage(
                self.venue,
                style,
                reply_to=reply_to,
                take_over=self._take_over,
                entry=self._entry("text", self._step_id),
                in_doubt=in_doubt,
            )
            self._tools.answer("")
            self.stage.add(self._answer)
        self._answer.add(text, now)

    def _take_over(self, now: float) -> str:
        return self._tools.become_text(self.stage.newest_id, now)

    def _done(self, event: TurnDone, now: float) -> None:
        said = "".join(self._said)
        if event.text.startswith(said) and event.text != said:
            self._write(event.text[len(said) :], now)
        self._end_turn()
        for code in find_long_code(event.text, longer_than=self.venue.port.limit):
            self._send_file(code.name, partial(_encoded, code.content), _WHOLE_CODE)
        if event.stopped and not self._stop_told:
            self._say(_STOPPED)

    def _fail(self, event: TurnFailed) -> None:
        if not event.outbox_id:
            # What was not stored is written anew after a restart: nothing tells that it was.
            self._cut_short()
        self._end_turn()
        self._say(f"⚠ {event.error}", silent=False, entry=self._entry("notice", event.outbox_id))

    def _take_back(self) -> None:
        """The turn is begun anew: what it had not finished saying is said again."""
        answer, self._answer = self._answer, None
        if answer is not None and answer.take_back():
            self._in_doubt.add(self._turn_id)

    def _cut_short(self) -> None:
        if self._answer is not None:
            self._answer.cut_short()
        self._answer = None

    def _end_step(self) -> None:
        if self._answer is not None:
            self._answer.close()
        self._answer = None
        self._step_id = ""
        self._said.clear()

    def _end_turn(self) -> None:
        self._end_step()
        self._tools.end()
        self._acknowledgement.turn_over()
        for question in self._questions.values():
            question.settle("expired")
        self._questions.clear()
        self.running = False

    def _change_place(self) -> None:
        self.venue = self._next_venue
        self._tools.move(self.venue)
        self._acknowledgement.move(self.venue)

    # -- what stands for itself ------------------------------------------------------------------------------

    def _ask(self, event: ApprovalAsked) -> None:
        self._tools.wait()
        question = ApprovalMessage(self.venue, event, partial(self._passing_entry, self.venue.place))
        self._questions[event.approval_id] = question
        self.stage.add(question)
        if question.left_out:
            self._send_file("command.txt", partial(_encoded, question.command))

    def _settle(self, event: ApprovalSettled, now: float) -> None:
        if question := self._questions.pop(event.approval_id, None):
            question.settle(event.choice)
        if not self._questions:
            self._tools.go_on(now)

    def _give(self, event: FileSent) -> None:
        has_long_caption = len(event.caption) > _LONGEST_CAPTION
        caption = "" if has_long_caption else event.caption
        self._send_file(event.name, workspace_reader(event), caption, self._entry("file", event.outbox_id))
        if has_long_caption:
            self._say(event.caption)

    def _send_file(
        self, name: str, read: Callable[[], bytes], caption: str = "", entry: OutboxHandle | None = None
    ) -> None:
        self.stage.add(FileMessage(self.venue, name, read, caption, entry=entry))

    def _say(self, text: str, *, silent: bool = True, entry: OutboxHandle | None = None) -> None:
        self.stage.add(TextMessage(self.venue, Style(silent=silent), whole=text, entry=entry))

    # -- what must not be lost -------------------------------------------------------------------------------

    def _entry(self, kind: Kind, outgoing_id: str) -> OutboxHandle | None:
        """None for what is shown as well as it goes."""
        return self._entry_at(self.venue.place, kind, outgoing_id) if outgoing_id else None

    def _passing_entry(self, place: Place, last_words: str | None = None) -> OutboxHandle | None:
        return self._entry_at(place, "transient", new_id("out"), last_words)

    def _entry_at(
        self, place: Place, kind: Kind, outgoing_id: str, content: str | None = None
    ) -> OutboxHandle | None:
        reply_to = self._platform_id(self._turn_id)
        return self.ledger.entry(
            OutboxItem(outgoing_id, self._conversation_id, self._turn_id, reply_to, place, kind, content)
        )

    def _give_up(self, kind: Kind, outgoing_id: str) -> None:
        if entry := self._entry(kind, outgoing_id):
            entry.park(self.stage.abandoned_because)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")
