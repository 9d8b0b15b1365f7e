"""Which tools are running, on one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agent.events import ToolStarted
from agent.redaction import own_rules, redact
from gateway.chat.showing.fleeting import EntryAt, Fleeting
from gateway.chat.showing.venue import Venue
from gateway.chat.showing.wording import brief, one_line

_LONGEST = 60
_LOOKED_AT = 2_000
"""Characters of the arguments that may come to be shown. All of them, looked at here, could hold everybody up."""


class ToolLine(Fleeting):
    """Appears when a tool takes long; becomes the text that follows, or goes."""

    def __init__(self, venue: Venue, new_entry: EntryAt) -> None:
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
            self._wanted = tool_line(list(self._running.values()))


def tool_line(calls: Sequence[ToolStarted]) -> str:
    if len(calls) > 1:
        counted = Counter(one_line(call.name, _LONGEST) for call in calls)
        names = ", ".join(f"{name} ×{times}" if times > 1 else name for name, times in counted.items())
        return f"⚙ {one_line(names, _LONGEST)}"
    arguments = one_line(redact(brief(calls[0].arguments)[:_LOOKED_AT], own_rules()), _LONGEST)
    return f"⚙ {one_line(calls[0].name, _LONGEST)}{': ' if arguments else ''}{arguments}"
