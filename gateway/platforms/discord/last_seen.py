"""The newest message that was seen in each channel: where to go on after a connection that cannot be resumed."""

from __future__ import annotations

from collections import OrderedDict

_MOST_CHANNELS = 100


class LastSeen:
    """Outlives connections. The channels that were quiet for longest are forgotten."""

    def __init__(self) -> None:
        self._newest: OrderedDict[int, int] = OrderedDict()

    def note(self, channel_id: int, message_id: int) -> None:
        self._newest[channel_id] = max(message_id, self._newest.get(channel_id, 0))
        self._newest.move_to_end(channel_id)
        if len(self._newest) > _MOST_CHANNELS:
            self._newest.popitem(last=False)

    def by_channel(self) -> dict[int, int]:
        return dict(self._newest)
