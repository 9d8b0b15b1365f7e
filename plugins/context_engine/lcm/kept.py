"""The messages that stay in the context, and how they are made to fit: by copies, the newest request last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from agent.chat_text import text_of
from agent.compression.truncate import fair_cap

from .copies import SMALLEST, in_one_line, with_beginning_and_end, with_copy
from .database import Database
from .limits import Limits
from .messages import Stored, messages_by_key
from .reading import Item
from .tail import Group, groups_of
from .written import remember_copy

Copy = Callable[[Item, Stored], Item]


class Kept:
    """Of one conversation, in order."""

    def __init__(self, database: Database, conversation: int, items: Iterable[Item]) -> None:
        self._database = database
        self._conversation = conversation
        self.items = list(items)
        self.copied: list[int] = []
        """Keys of the messages of which only a copy stays."""

    @property
    def tokens(self) -> int:
        return sum(item.tokens for item in self.items)

    def remove(self, items: Sequence[Item]) -> None:
        leaving = set(map(id, items))
        self.items = [item for item in self.items if id(item) not in leaving]

    def newest_request(self) -> Item | None:
        asked = (item for item in reversed(self.items) if item.kind == "said" and item.chat["role"] == "user")
        return next(asked, None)

    def leave_large_ones(self, limits: Limits) -> None:
        """Not those of the last group, which is being worked on, and not the newest request."""
        large = [item for item in self.items if item.tokens > limits.large and not self._is_at_work(item)]
        self._copy(large, lambda item, whole: with_copy(item, whole, limits.digest))

    def fit(self, room: int, most: int) -> None:
        """Into the room; but what is being worked on stays whole up to `most`, which is what the window can hold."""
        others = [item for item in self.items if not self._is_at_work(item)]
        self._shrink(others, room - self.tokens + _tokens(others))
        if self.tokens <= most:
            return
        results = [item for item in self._last_group() if item.chat["role"] == "tool"]
        self._shrink(results, room - self.tokens + _tokens(results))
        if self.tokens > most and (request := self.newest_request()):
            left = max(SMALLEST, room - self.tokens + request.tokens)
            self._copy([request], lambda item, whole: with_beginning_and_end(item, whole, left))
        if self.tokens > most:
            lines = [item for item in self.items if item.chat["role"] == "tool"]
            self._copy(lines, in_one_line)

    def _shrink(self, items: Sequence[Item], room: int) -> None:
        sizes = [item.tokens for item in items]
        if sizes and sum(sizes) > room:
            cap = fair_cap(sizes, room, SMALLEST)
            larger = [item for item in items if item.tokens > cap]
            self._copy(larger, lambda item, whole: with_copy(item, whole, cap))

    def _is_at_work(self, item: Item) -> bool:
        request = self.newest_request()
        return item is request or any(item is each for each in self._last_group())

    def _last_group(self) -> Group:
        groups = groups_of(self.items)
        return groups[-1] if groups else []

    def _copy(self, items: Sequence[Item], copy: Copy) -> None:
        with self._database.reading() as connection:
            whole = messages_by_key(connection, [item.message for item in items])
        copies = {id(item): copy(item, whole[item.message]) for item in items}
        made = [item for item in items if copies[id(item)] is not item]
        if not made:
            return
        with self._database.writing() as connection:
            for item in made:
                text = text_of(copies[id(item)].chat)
                remember_copy(connection, self._conversation, text, item.message)
        self.items = [copies.get(id(item), item) for item in self.items]
        self.copied += [item.message for item in made]


def _tokens(items: Iterable[Item]) -> int:
    return sum(item.tokens for item in items)
