"""What was said in a group around the messages for the bot: a little of it, for a while, in memory only."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from gateway.chat.wording import Overheard

_MOST_PLACES = 1_000


@dataclass(slots=True)
class _Remarks:
    newest: deque[Overheard]
    count: int = 0
    told: dict[str, int] = field(default_factory=dict)
    """How many had been made when each listener was last told."""


class Overhearing:
    """The newest `most` remarks per place. In a group with a conversation per person, each of them is a listener."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._places: OrderedDict[Hashable, _Remarks] = OrderedDict()

    def keep(self, most: int) -> None:
        """Another number from now on: of what was overheard so far, as many as that."""
        self._most = most
        for remarks in self._places.values():
            remarks.newest = deque(remarks.newest, maxlen=most)

    def add(self, place: Hashable, remark: Overheard) -> None:
        if not self._most:
            return
        remarks = self._places.setdefault(place, _Remarks(deque(maxlen=self._most)))
        remarks.newest.append(remark)
        remarks.count += 1
        self._places.move_to_end(place)
        if len(self._places) > _MOST_PLACES:
            self._places.popitem(last=False)

    def take(self, place: Hashable, listener: str = "") -> list[Overheard]:
        """What this listener has not been told: after that it is in their history."""
        remarks = self._places.get(place)
        if remarks is None:
            return []
        new = remarks.count - remarks.told.get(listener, 0)
        remarks.told[listener] = remarks.count
        return list(remarks.newest)[-new:] if new else []
