"""Every event once, for whoever watches a conversation again and again."""

from __future__ import annotations

from agent.events import TextDelta, TurnEvent, TurnStarted


class Unseen:
    """Lets every event through once.

    Whoever watches again gets the whole turn again, its text cut into other pieces. What was printed or sent
    cannot be taken back, so what was seen is left out here.
    """

    def __init__(self, after: int) -> None:
        self.last = after
        self._message_id = ""
        self._text_seen = 0
        self._text_to_skip = 0
        # Before the first turn, too, what was seen may come again.
        self._repeating = True

    def take(self, number: int, event: TurnEvent) -> TurnEvent | None:
        if isinstance(event, TurnStarted):
            self._begin(event.message_id, number)
        known = self._repeating and number <= self.last
        # Not the greater of the two: after a restart of the gateway, numbers begin anew.
        self.last = self.last if known else number
        if isinstance(event, TextDelta):
            return self._unseen_text(event.text)
        return None if known else event

    def _begin(self, message_id: str, number: int) -> None:
        """A turn that was begun anew, after a crash say, has a new number: its text is another."""
        self._repeating = message_id == self._message_id and number <= self.last
        if not self._repeating:
            self._message_id, self._text_seen = message_id, 0
        self._text_to_skip = self._text_seen

    def _unseen_text(self, text: str) -> TextDelta | None:
        unseen = text[self._text_to_skip :]
        self._text_to_skip -= len(text) - len(unseen)
        self._text_seen += len(unseen)
        return TextDelta(unseen) if unseen else None
