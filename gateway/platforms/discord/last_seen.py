"""The newest message that was seen in each place: where to go on after a connection that cannot be resumed."""

from __future__ import annotations

from collections import OrderedDict

from gateway.chat.contract import Place

_MOST_PLACES = 1000


class LastSeen:
    """Outlives connections. The places that were quiet for longest are forgotten."""

    def __init__(self) -> None:
        self._newest: OrderedDict[Place, int] = OrderedDict()
        self._began = 0

    def begin(self, now: int) -> bool:
        """At the first connection, with the id that a message would have now; there is nothing before that. False if
        it has begun already."""
        if self._began:
            return False
        self._began = now
        return True

    def note(self, place: Place, message_id: int) -> None:
        self._newest[place] = max(message_id, self._newest.get(place, 0))
        self._newest.move_to_end(place)
        if len(self._newest) > _MOST_PLACES:
            _, newest = self._newest.popitem(last=False)
            # From here on an unknown place may be one that was forgotten: what is older has been seen there.
            self._began = max(self._began, newest)

    def copy(self) -> LastSeen:
        """As it is at this moment."""
        same = LastSeen()
        same._newest, same._began = self._newest.copy(), self._began
        return same

    def in_place(self, place: Place) -> int:
        """What is newer has not been seen there."""
        return self._newest.get(place, self._began)

    def direct_chats(self, most: int) -> list[Place]:
        """Those that were busy last."""
        direct = [place for place in reversed(self._newest) if place.kind == "direct"]
        return direct[:most]
