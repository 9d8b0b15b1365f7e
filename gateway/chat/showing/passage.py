"""Text that grows in a message, and goes on in the next when that one is full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import structlog

from gateway.chat.contract import Button
from gateway.chat.errors import ContentRefused, DeliveryError, MessageGone, Undeliverable, Unreachable
from gateway.chat.showing.block import AT_ONCE, NEVER, POSSIBLY_TWICE, Block
from gateway.chat.showing.calls import Call, Delete, Edit, Send
from gateway.chat.showing.draft import Draft
from gateway.chat.showing.venue import Venue
from gateway.text.pieces import first_piece

log = structlog.get_logger(__name__)

CURSOR = " ▌"
"""After text that is still being written; no model ends a sentence like that."""

_MARK = POSSIBLY_TWICE + "\n\n"
_REFUSED = "⚠ The chat service did not take a part of this text; it is kept in the conversation."


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


class Passage(Block):
    """Markdown: shown as it is while it grows, formatted when it is finished.

    `whole` is all of the text where that is known. `reply_to` is for its first message, `buttons` for its last.
    `take_over` gives a message that may be edited into this text, or nothing.
    """

    def __init__(
        self,
        venue: Venue,
        style: Style,
        *,
        whole: str | None = None,
        reply_to: str = "",
        buttons: Sequence[Button] = (),
        take_over: Callable[[float], str] = _nothing,
    ) -> None:
        super().__init__(venue)
        self.last_id = ""
        """The newest message that shows some of it."""
        self._port = venue.port
        self._style = style
        self._reply_to = reply_to
        self._buttons = tuple(buttons)
        self._take_over = take_over
        self._closed = False
        self._last_call = -inf
        self._draft = Draft(venue.port.measure)
        self._attempt = _Attempt(0, is_final=False)
        self._leftover = ""
        """A message that was taken over and cannot become text; it has to go."""
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
        return self._port.limit - self._port.measure(self._mark)

    @property
    def _mark(self) -> str:
        return _MARK if self._draft.may_be_there else ""

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
        piece, rest = first_piece(draft.text(), self._room, self._port.measure)
        draft.message_id = draft.message_id or self._take_over(now)
        shown = self._mark + piece
        is_final = self._closed or bool(rest)
        self._attempt = _Attempt(draft.count, is_final, rest)
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

    # -- what came of them -----------------------------------------------------------------------------------

    def done(self, call: Call, message_id: str, now: float) -> None:
        if isinstance(call, Delete):
            self._leftover = ""
            self._settle()
            return
        self._last_call = now
        self._failing_since = None
        self.last_id = message_id
        self._reply_to = ""
        if self._attempt.is_final:
            self._begin_message(self._attempt.rest, self._attempt.count, now)
        else:
            self._draft.message_id = message_id
            self._draft.visible = self._attempt.count
            self._draft.may_show_more = False

    def failed(self, call: Call, error: DeliveryError, now: float) -> str:
        match error, call:
            case _, Delete():
                self._leftover = ""
                self._settle()
            case Undeliverable(), _:
                self.over = self.lost = True
            case ContentRefused(), _ if not self._attempt.is_final:
                self._draft.refused = True
            case ((MessageGone() | ContentRefused()), Edit()):
                self._go_on_below(now)
            case ContentRefused(), _:
                log.warning("chat.text_refused", platform=self._port.platform)
                self._begin_message(self._attempt.rest, self._attempt.count, now)
                return "" if self._style.is_apology else _REFUSED
            case _:
                self._try_again(call, now, maybe_done=isinstance(error, Unreachable) and error.maybe_done)
        return ""

    def _try_again(self, call: Call, now: float, *, maybe_done: bool) -> None:
        """An edit may be repeated at will; of a message that is sent again there may be two."""
        is_edit = isinstance(call, Edit)
        if is_edit:
            self._draft.may_show_more |= maybe_done
        else:
            self._draft.may_be_there |= maybe_done
        if not self._attempt.is_final or not self._is_hopeless(now):
            return
        if is_edit:
            self._failing_since = None
            self._go_on_below(now)
        else:
            self.over = self.lost = True

    def _go_on_below(self, now: float) -> None:
        """That message stays as it was seen last. What it does not show comes in another."""
        old = self._draft
        if not old.visible:
            self._leftover = old.message_id
        unseen = old.not_visible(self._attempt.count)
        if self._attempt.is_final and old.may_show_more and len(self._attempt.rest) >= len(unseen):
            # It may show its final text, which ends earlier than the unfinished one did.
            unseen = self._attempt.rest
        self._begin_message(unseen, self._attempt.count, now)
        self._draft.may_be_there = old.may_show_more

    def _begin_message(self, rest: str, count: int, now: float) -> None:
        """So many characters are dealt with, but for this rest; what has come since is still to be shown."""
        since = self._draft.added_since(count)
        self._draft = Draft(self._port.measure)
        self._draft.add(rest + since, now)
        self._settle()

    def _settle(self) -> None:
        self.over = self._closed and self._draft.began is None and not self._leftover
