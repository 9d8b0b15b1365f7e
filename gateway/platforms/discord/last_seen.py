"""The newest message that was seen in each place: where to go on after a connection that cannot be resumed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from discord.utils import time_snowflake, utcnow

from gateway.chat.contract import ChatDesk, Place

_MOST_PLACES = 1000
_LONGEST_ABSENCE = timedelta(days=1)
"""What was written before that is not answered after a start: Telegram keeps no more either."""


class LastSeen:
    """Outlives connections. The places that were quiet for longest are forgotten."""

    def __init__(self) -> None:
        self._newest: OrderedDict[Place, int] = OrderedDict()
        self._began = 0

    async def begin(self, desk: ChatDesk) -> None:
        """At the first connection: what an earlier process has seen is known to the desk. There is nothing before the
        bot's first day, nor before a longer absence."""
        if self._began:
            return
        since = datetime.fromtimestamp(await desk.open(), UTC)
        newest = await desk.newest()
        self._began = time_snowflake(max(since, utcnow() - _LONGEST_ABSENCE))
        for place, message_id in reversed(newest.items()):
            self.note(place, int(message_id))

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
        return max(self._newest.get(place, 0), self._began)

    def direct_chats(self, most: int) -> list[Place]:
        """Those that were busy last."""
        direct = [place for place in reversed(self._newest) if place.kind == "direct"]
        return direct[:most]

    def in_group(self, group_id: str) -> Iterator[Place]:
        """Those of a server, the busy ones first."""
        return (place for place in reversed(self._newest) if place.group_id == group_id)
