"""What was said in a group around the messages for the bot: a little of it, for a while, in memory only."""

from __future__ import annotations

from collections import OrderedDict, deque

from gateway.chat.contract import Place
from gateway.chat.wording import Overheard

_MOST_PLACES = 1_000


class Overhearing:
    """The newest `most` remarks per place."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._places: OrderedDict[Place, deque[Overheard]] = OrderedDict()

    def add(self, place: Place, remark: Overheard) -> None:
        if not self._most:
            return
        self._places.setdefault(place, deque(maxlen=self._most)).append(remark)
        self._places.move_to_end(place)
        if len(self._places) > _MOST_PLACES:
            self._places.popitem(last=False)

    def take(self, place: Place) -> list[Overheard]:
        """Each remark is told once: after that it is in the history."""
        return list(self._places.pop(place, ()))
