"""What becomes of the messages that arrived while a turn was running."""

from __future__ import annotations

from agent.events import Queued
from gateway.chat.showing.fleeting import EntryAt, Fleeting
from gateway.chat.showing.venue import Venue


class Acknowledgement(Fleeting):
    """One message for all that wait; it goes when the last of them is taken up."""

    def __init__(self, venue: Venue, new_entry: EntryAt) -> None:
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
