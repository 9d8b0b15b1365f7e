"""A small silent message that says how things stand, and disappears."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import inf

from agent.events import Queued, ToolStarted
from agent.redaction import own_rules, redact
from gateway.chat.delivery.item import AT_ONCE, NEVER, Call, Delete, DeliveryItem, Edit, Send
from gateway.chat.delivery.outbox_tracker import OutboxHandle
from gateway.chat.delivery.pacing import ChatTarget
from gateway.chat.errors import DeliveryError, MessageGone, Unreachable
from gateway.store.ports import DeliveryProgress
from gateway.text.display import one_line, summarize_arguments
from gateway.types import Place

EntryAt = Callable[[Place], OutboxHandle | None]


class TransientMessage(DeliveryItem):
    """One message at most. A courtesy: whatever goes wrong with it is left at that. Only that it is there is entered,
    so that it goes also after a crash."""

    def __init__(self, venue: ChatTarget, new_entry: EntryAt) -> None:
        super().__init__(venue)
        self._new_entry = new_entry
        self._can_change = venue.port.can_edit
        self._wanted = ""
        self._not_before = AT_ONCE
        self._reply_to = ""
        self._forget_message()
        self._muted = False

    @property
    def holds_back(self) -> bool:
        return False

    @property
    def is_visible(self) -> bool:
        return bool(self._message_id)

    def vanish(self) -> None:
        self._wanted = ""
        self._muted = False

    def move(self, venue: ChatTarget) -> None:
        """For the next message; one that is there stays where it is."""
        if not self._message_id:
            self.venue = venue

    def reset(self) -> None:
        """As if nothing had been shown."""
        self.vanish()
        self._forget_message()

    def due(self) -> float:
        if self._message_id:
            if self._wanted == self._shown or not self._can_change:
                return NEVER
            if not self._wanted:
                return AT_ONCE
            return NEVER if self._muted else self._last_call + self.venue.pace.edit_seconds
        return self._not_before if self._wanted and not self._muted else NEVER

    def call(self, now: float) -> Call:
        if not self._wanted:
            return Delete(self._message_id)
        if self._message_id:
            return Edit(self._message_id, self._wanted)
        return Send(self._wanted, reply_to=self._reply_to, silent=True)

    def done(self, call: Call, message_id: str, now: float) -> None:
        self._last_call = now
        self._failing_since = None
        match call:
            case Delete():
                self._forget_message()
            case Edit():
                self._shown = call.text
            case Send():
                self._message_id, self._shown, self._sent_at = message_id, call.text, now
                self.entry = self._new_entry(self.venue.place) if self._can_change else None
                if self.entry:
                    self.entry.note(DeliveryProgress(shown_in=(message_id,), is_streaming=True))

    def failed(self, call: Call, error: DeliveryError, now: float) -> str:
        if isinstance(call, Delete):
            if not isinstance(error, Unreachable) or self._is_hopeless(now):
                self._forget_message()
            return ""
        self._muted = True
        if isinstance(error, MessageGone):
            self._forget_message()
        return ""

    def _forget_message(self) -> None:
        if self.entry:
            self.entry.close()
            self.entry = None
        self._failing_since = None
        self._message_id = self._shown = ""
        self._sent_at = self._last_call = -inf


_LONGEST = 60
_LOOKED_AT = 2_000
"""Characters of the arguments that may come to be shown. All of them, looked at here, could hold everybody up."""


class ToolStatus(TransientMessage):
    """Appears when a tool takes long; becomes the text that follows, or goes."""

    def __init__(self, venue: ChatTarget, new_entry: EntryAt) -> None:
        super().__init__(venue, new_entry)
        self._running: dict[str, ToolStarted] = {}
        self._waits = False

    def answer(self, reply_to: str) -> None:
        """As it may become the text that answers a message, it answers that message."""
        self._reply_to = reply_to

    def started(self, event: ToolStarted, now: float) -> None:
        if not self._running:
            self._not_before = now + self.venue.timing.status_after
        self._running[event.call_id] = event
        self._update()

    def finished(self, call_id: str) -> None:
        """The last one stays to be seen until there is something else to see."""
        self._running.pop(call_id, None)
        if self._running:
            self._update()
        elif not self.is_visible:
            self.vanish()

    def wait(self) -> None:
        """For the person: nothing is running before they have answered."""
        self._waits = True
        self.vanish()

    def go_on(self, now: float) -> None:
        self._waits = False
        self._not_before = now + self.venue.timing.status_after
        self._update()

    def end(self) -> None:
        self._running.clear()
        self._waits = False
        self.vanish()

    def become_text(self, newest_id: str, now: float) -> str:
        """Its message, if text may stand there and be noticed; else it goes."""
        message_id = self._message_id
        is_fresh = now - self._sent_at < self.venue.timing.looked_away
        self.vanish()
        if message_id != newest_id or not is_fresh:
            return ""
        self._forget_message()
        return message_id

    def _update(self) -> None:
        if self._running and not self._waits:
            self._wanted = tool_status_text(list(self._running.values()))


def tool_status_text(calls: Sequence[ToolStarted]) -> str:
    if len(calls) > 1:
        counted = Counter(one_line(call.name, _LONGEST) for call in calls)
        names = ", ".join(f"{name} ×{times}" if times > 1 else name for name, times in counted.items())
        return f"⚙ {one_line(names, _LONGEST)}"
    arguments = one_line(redact(summarize_arguments(calls[0].arguments)[:_LOOKED_AT], own_rules()), _LONGEST)
    return f"⚙ {one_line(calls[0].name, _LONGEST)}{': ' if arguments else ''}{arguments}"


class QueuedNotice(TransientMessage):
    """One message for all that wait; it goes when the last of them is taken up."""

    def __init__(self, venue: ChatTarget, new_entry: EntryAt) -> None:
        super().__init__(venue, new_entry)
        self._ahead: dict[str, int] = {}
        """By the id of a message that waits: how many turns come before its own."""
        self._steers = False

    def queued(self, event: Queued, reply_to: str) -> None:
        if event.how == "interrupt":  # the stop itself is answer enough
            return
        if not self._ahead:
            self._reply_to = reply_to
        self._ahead[event.message_id] = event.ahead
        self._steers = event.how == "steer"
        self._update()

    def taken(self, message_id: str) -> bool:
        """Whether that message has waited."""
        if self._ahead.pop(message_id, None) is None:
            return False
        self._update()
        return True

    def reset(self) -> None:
        super().reset()
        self._ahead.clear()

    def turn_over(self) -> None:
        for message_id, ahead in self._ahead.items():
            self._ahead[message_id] = max(1, ahead - 1)

    def _update(self) -> None:
        if not self._ahead:
            self.vanish()
            return
        one = len(self._ahead) == 1
        which, it = ("", "it") if one else (f", {len(self._ahead)} messages", "them")
        if self._steers:
            self._wanted = f"⏳ Noted{which}; I take {it} into account at the next step."
        else:
            self._wanted = f"⏳ Noted{which}; I answer {it} after {self._before_them()}."

    def _before_them(self) -> str:
        nearest = min(self._ahead.values())
        return "this one" if nearest <= 1 else f"{nearest} others"


class StaleMessage(DeliveryItem):
    """Its messages are taken away, or say that it is over. Nothing waits for that."""

    def __init__(self, venue: ChatTarget, entry: OutboxHandle) -> None:
        super().__init__(venue, entry)
        self._last_words = entry.outgoing.content or ""
        self._message_ids = list(entry.outgoing.progress.shown_in) if venue.port.can_edit else []
        self._not_before = AT_ONCE
        self._settle()

    @property
    def holds_back(self) -> bool:
        return False

    def due(self) -> float:
        return NEVER if self.over else self._not_before

    def call(self, now: float) -> Call:
        message_id = self._message_ids[0]
        return Edit(message_id, self._last_words, True) if self._last_words else Delete(message_id)

    def done(self, call: Call, message_id: str, now: float) -> None:
        self._failing_since = None
        del self._message_ids[0]
        self._settle()

    def failed(self, call: Call, error: DeliveryError, now: float) -> str:
        if isinstance(error, Unreachable) and not self._is_hopeless(now):
            # What is to be shown comes first, should only this fail.
            self._not_before = now + self.venue.timing.longest_backoff
        else:
            self.done(call, "", now)
        return ""

    def _settle(self) -> None:
        self.over = not self._message_ids
        if self.over and self.entry:
            self.entry.close()
