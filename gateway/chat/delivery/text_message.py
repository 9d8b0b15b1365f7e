"""Text that grows in a message, and goes on in the next when that one is full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import structlog

from gateway.chat.delivery.item import AT_ONCE, NEVER, POSSIBLY_TWICE, Call, Delete, DeliveryItem, Edit, Send
from gateway.chat.delivery.message_buffer import MessageBuffer, common_ending
from gateway.chat.delivery.outbox_tracker import OutboxHandle
from gateway.chat.delivery.pacing import ChatTarget
from gateway.chat.errors import ContentRefused, DeliveryError, MessageGone, Undeliverable, Unreachable
from gateway.store.ports import DeliveryProgress, State
from gateway.text.splitter import split_first
from gateway.text.unicode import is_blank
from gateway.types import Button

log = structlog.get_logger(__name__)

CURSOR = " ▌"
"""After text that is still being written; no model ends a sentence like that."""

_MARK = POSSIBLY_TWICE + "\n\n"
_REFUSED = "⚠ The chat service did not take a part of this text; it is kept in the conversation."
_PARTLY_REFUSED = "The chat service did not take a part of it."


def _nothing(now: float) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Style:
    silent: bool = False
    streaming: bool = False
    """It is shown while it grows."""
    is_apology: bool = False
    """It stands for something that was refused; if it is refused as well, that is that."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What the call under way tries to show."""

    count: int
    """Characters of the draft it is about."""
    is_final: bool
    rest: str = ""
    """What of them does not fit into the final message."""


class TextMessage(DeliveryItem):
    """Markdown: shown as it is while it grows, formatted when it is finished.

    `whole` is all of the text where that is known, or all that is left of it after what is there `so_far`. `reply_to`
    is for its first message, `buttons` for its last. `take_over` gives a message that may be edited into this text, or
    nothing. `in_doubt`: an earlier process may have sent it.
    """

    def __init__(
        self,
        venue: ChatTarget,
        style: Style,
        *,
        whole: str | None = None,
        reply_to: str = "",
        buttons: Sequence[Button] = (),
        take_over: Callable[[float], str] = _nothing,
        entry: OutboxHandle | None = None,
        so_far: DeliveryProgress | None = None,
        in_doubt: bool = False,
    ) -> None:
        super().__init__(venue, entry)
        self.last_id = ""
        """The newest message that shows some of it."""
        self._port = venue.port
        self._style = style
        self._reply_to = reply_to
        self._buttons = tuple(buttons)
        self._take_over = take_over
        self._closed = self._cut_short = self._taken_back = self._refused = False
        self._last_call = -inf
        self._attempt: _Attempt | None = None
        self._leftover = ""
        """A message that cannot become text; it has to go."""
        so_far = so_far or DeliveryProgress()
        self._shown_in = list(so_far.shown_in)
        self._dealt = so_far.sent_chars
        """Where in the text the draft begins, after its first characters that are `_rest`."""
        self._rest = so_far.remainder
        self._in_doubt = in_doubt or so_far.state == "sending"
        self._draft = MessageBuffer(venue.port.measure, may_be_there=self._in_doubt)
        if so_far.is_streaming and is_blank(whole or ""):
            self._leftover = so_far.shown_in[-1]
        elif so_far.is_streaming:
            # What it shows is not known. If it cannot be edited, all of it is to be seen again.
            self._draft.message_id = so_far.shown_in[-1]
            self._draft.may_show_more = True
        if style.streaming:
            venue.pace.growing.add(self)
        if whole is not None:
            self.add(whole, AT_ONCE)
            self.close()

    # -- what should be visible ------------------------------------------------------------------------------

    def add(self, text: str, now: float) -> None:
        self._draft.add(text, now)

    def close(self) -> None:
        """That was all."""
        self._closed = True
        self.venue.pace.growing.discard(self)
        self._settle()
        self._note()

    def cut_short(self) -> None:
        """More may come of it, but not from this process: what is there is left as a text that can be read, and the
        next process finishes it or takes it away."""
        self._cut_short = self.entry is not None
        self.close()

    def take_back(self) -> bool:
        """Another passage says it anew: what is seen of this one goes before that. Gives whether there may be more of
        it than is known."""
        is_sending = self._attempt is not None and not self._draft.message_id
        self._in_doubt |= self._draft.may_be_there or is_sending
        self._taken_back = self._closed = True
        self.venue.pace.growing.discard(self)
        self._draft = MessageBuffer(self._port.measure)
        self._take_next_away()
        self._note()
        return self._in_doubt

    @property
    def is_visible(self) -> bool:
        return bool(self._draft.message_id)

    @property
    def holds_back(self) -> bool:
        """While it grows, other things may be said below it."""
        return not self.over and self._is_ready

    @property
    def _is_ready(self) -> bool:
        """A message of it can be finished."""
        draft = self._draft
        is_full = self._style.streaming and draft.size > self._room and draft.count > draft.looked_at
        return self._closed or is_full

    @property
    def _room(self) -> int:
        """There is always room for the mark, so that a message that has to be sent again ends where it did before."""
        return self._port.limit - self._port.measure(_MARK)

    # -- the calls -------------------------------------------------------------------------------------------

    def due(self) -> float:
        draft, pace = self._draft, self.venue.pace
        if self.over:
            return NEVER
        if self._is_ready or self._leftover:
            return self._last_call + (pace.gap_before_finish if draft.message_id else pace.gap)
        if not self._style.streaming or draft.refused or draft.began is None or draft.count == draft.visible:
            return NEVER
        next_edit = self._last_call + pace.edit_seconds
        return next_edit if draft.message_id else max(next_edit, draft.began + self.venue.timing.first_text)

    def call(self, now: float) -> Call:
        if self._leftover:
            return Delete(self._leftover)
        draft = self._draft
        piece, rest = split_first(draft.text(), self._room, self._port.measure)
        if not draft.message_id and (taken := self._take_over(now)):
            draft.message_id = taken
            self._shown_in.append(taken)
        shown = (_MARK if draft.may_be_there else "") + piece
        is_final = self._closed or bool(rest)
        self._attempt = _Attempt(draft.count, is_final, rest)
        self._note()
        if is_final:
            is_last = self._closed and not rest
            return self._show(shown, formatted=True, buttons=self._buttons if is_last else ())
        draft.looked_at = draft.count
        has_room = self._port.measure(shown + CURSOR) <= self._port.limit
        return self._show(shown + CURSOR if has_room else shown)

    def _show(self, text: str, *, formatted: bool = False, buttons: tuple[Button, ...] = ()) -> Call:
        if self._draft.message_id:
            return Edit(self._draft.message_id, text, formatted, buttons)
        return Send(text, formatted, self._reply_to, buttons, self._style.silent)

    def _note(self) -> None:
        if self.entry and self._taken_back and self.over:
            self.entry.forget()
        elif self.entry and not self.lost:
            self.entry.note(self._progress())

    def _progress(self) -> DeliveryProgress:
        if self._taken_back:
            left = tuple(self._shown_in)
            return DeliveryProgress("sending" if self._in_doubt else "pending", left, is_streaming=bool(left))
        if self.over and not self._cut_short:
            state: State = "parked" if self._refused else "sent"
            return DeliveryProgress(
                state, tuple(self._shown_in), reason=_PARTLY_REFUSED if self._refused else ""
            )
        draft = self._draft
        is_sending = self._attempt is not None and not draft.message_id
        # While the model writes, all of it may yet have to be written anew, and the doubt is about all of it.
        is_whole = self._closed and not self._cut_short
        in_doubt = draft.may_be_there or (self._in_doubt and not is_whole)
        return DeliveryProgress(
            "sending" if is_sending or in_doubt else "pending",
            tuple(self._shown_in),
            bool(draft.message_id or self._leftover),
            self._dealt,
            self._rest,
        )

    # -- what came of them -----------------------------------------------------------------------------------

    def done(self, call: Call, message_id: str, now: float) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            self._forget_leftover()
        elif self._taken_back:
            self._shown_in += [message_id] * (message_id not in self._shown_in)
        else:
            self._was_shown(attempt, message_id, now)
        self._take_next_away()
        self._note()

    def _was_shown(self, attempt: _Attempt, message_id: str, now: float) -> None:
        self._last_call = now
        self._failing_since = None
        self.last_id = message_id
        self._reply_to = ""
        if message_id not in self._shown_in:
            self._shown_in.append(message_id)
        may_go_on = self._cut_short and not attempt.rest
        if attempt.is_final and not may_go_on:
            self._begin_message(attempt.rest, attempt.count, now)
        else:
            self._draft.message_id = message_id
            self._draft.visible = attempt.count
            self._draft.may_show_more = False
            self.over = attempt.is_final

    def put_off(self) -> None:
        super().put_off()
        self._attempt = None
        self._settle()
        self._take_next_away()
        self._note()

    def failed(self, call: Call, error: DeliveryError, now: float) -> str:
        attempt, self._attempt = self._attempt, None
        sentence = ""
        if attempt is None:
            if not self._taken_back or not isinstance(error, Unreachable) or self._is_hopeless(now):
                self._forget_leftover()
        elif not self._taken_back:
            sentence = self._was_not_shown(attempt, call, error, now)
            self._settle()
        self._take_next_away()
        self._note()
        return sentence

    def _was_not_shown(self, attempt: _Attempt, call: Call, error: DeliveryError, now: float) -> str:
        match error, call:
            case Undeliverable(), _:
                self.lost = True
            case ContentRefused(), _ if not attempt.is_final:
                self._draft.refused = True
            case ContentRefused(), Edit():
                self._send_anew(attempt, now)
            case MessageGone(), Edit():
                self._go_on_below(attempt, now)
            case ContentRefused(), _:
                log.warning("chat.text_refused", platform=self._port.platform)
                self._refused = True
                self._begin_message(attempt.rest, attempt.count, now)
                return "" if self._style.is_apology else _REFUSED
            case _:
                maybe_done = isinstance(error, Unreachable) and error.maybe_done
                self._try_again(attempt, call, now, maybe_done=maybe_done)
        return ""

    def _try_again(self, attempt: _Attempt, call: Call, now: float, *, maybe_done: bool) -> None:
        """An edit may be repeated at will; of a message that is sent again there may be two."""
        is_edit = isinstance(call, Edit)
        if is_edit:
            self._draft.may_show_more |= maybe_done
        else:
            self._draft.may_be_there |= maybe_done
            self._in_doubt |= maybe_done
        if maybe_done and not is_edit:
            shown = attempt.count - common_ending(self._draft.text()[: attempt.count], attempt.rest)
            self._draft.in_doubt = max(self._draft.in_doubt, shown)
        if not attempt.is_final or not self._is_hopeless(now):
            return
        if is_edit:
            self._failing_since = None
            self._go_on_below(attempt, now)
        else:
            self.lost = True

    def _send_anew(self, attempt: _Attempt, now: float) -> None:
        """A message that cannot be finished must not stay. All of its text comes in another, which may be taken where
        the change was not."""
        old = self._draft
        self._leftover = old.message_id
        self._begin_message(old.text()[: attempt.count], attempt.count, now)
        self._draft.may_be_there |= old.may_be_there

    def _go_on_below(self, attempt: _Attempt, now: float) -> None:
        """That message stays as it was seen last. What it does not show comes in another."""
        old = self._draft
        if not old.visible:
            self._leftover = old.message_id
        unseen = old.not_visible(attempt.count)
        if attempt.is_final and old.may_show_more and len(attempt.rest) >= len(unseen):
            # It may show its final text, which ends earlier than the unfinished one did.
            unseen = attempt.rest
        self._begin_message(unseen, attempt.count, now)
        self._draft.may_be_there |= old.may_show_more

    def _begin_message(self, rest: str, count: int, now: float) -> None:
        """So many characters are dealt with, but for this rest; what has come since is still to be shown."""
        old, text = self._draft, self._draft.text()
        unchanged = common_ending(text[:count], rest)
        of_the_text = count - len(self._rest)
        again = min(of_the_text, unchanged)
        self._dealt += of_the_text - again
        self._rest = rest[: len(rest) - again]
        self._draft = MessageBuffer(self._port.measure)
        self._draft.add(rest + text[count:], now)
        still_in_doubt = old.in_doubt - (count - unchanged)
        if still_in_doubt > 0:
            self._draft.may_be_there = True
            self._draft.in_doubt = len(rest) - unchanged + still_in_doubt
        self._settle()

    def _forget_leftover(self) -> None:
        self._shown_in.remove(self._leftover)
        self._leftover = ""
        self._settle()

    def _take_next_away(self) -> None:
        if self._taken_back:
            is_free = self._attempt is None
            self._leftover = self._shown_in[-1] if is_free and self._shown_in else ""
            self.over = is_free and not self._leftover

    def _settle(self) -> None:
        draft = self._draft
        is_hidden = not draft.message_id and self._attempt is None
        is_through = draft.began is None or (self._cut_short and is_hidden)
        self.over = self.lost or (self._closed and is_through and not self._leftover)
