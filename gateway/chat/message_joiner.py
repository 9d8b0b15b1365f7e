"""Parts of one message that arrive one by one: a long paste that the sender's program cut, or an album."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from gateway.commands import is_command
from gateway.types import ChatMessage, Place

_MOST_PARTS = 100
_CLOCK_STEP = 2.0
"""Services tell whole seconds, and take a moment between two parts."""
_Key = tuple[Place, str]


class MessageJoiner:
    """Holds back what may be incomplete until nothing more has come for a moment. All else passes at once."""

    def __init__(self, seconds: float, deliver: Callable[[ChatMessage], None]) -> None:
        self.seconds = seconds
        self._deliver = deliver
        self._parts: dict[_Key, list[ChatMessage]] = {}
        self._timers: dict[_Key, asyncio.TimerHandle] = {}

    def add(self, message: ChatMessage) -> None:
        key = (message.place, message.author.id)
        if not self._continues(key, message):
            self.flush(key)
        if key not in self._parts and not (message.album or message.maybe_unfinished):
            self._deliver(message)
            return
        parts = self._parts.setdefault(key, [])
        parts.append(message)
        self._wait(key)
        if len(parts) >= _MOST_PARTS:
            self.flush(key)

    def expects(self, message: ChatMessage) -> bool:
        """Whether it goes on with something that is held back."""
        return self._continues((message.place, message.author.id), message)

    def replace(self, message: ChatMessage) -> bool:
        """For a part its author has changed; False if it is not held back."""
        for parts in self._parts.values():
            for at, part in enumerate(parts):
                if (part.place, part.id) == (message.place, message.id):
                    parts[at] = replace(message, album=part.album, maybe_unfinished=part.maybe_unfinished)
                    return True
        return False

    def flush(self, key: _Key) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if parts := self._parts.pop(key, None):
            self._deliver(_joined(parts))

    def close(self) -> None:
        """Delivers nothing more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._parts.clear()

    def _continues(self, key: _Key, message: ChatMessage) -> bool:
        """An album continues with its own pictures, a paste with the text behind a part that was full."""
        parts = self._parts.get(key)
        if not parts:
            return False
        last = parts[-1]
        if not self._is_soon_after(last, message):
            return False
        if last.album:
            return message.album == last.album
        return not message.album and not message.quote and not is_command(message.text)

    def _is_soon_after(self, last: ChatMessage, message: ChatMessage) -> bool:
        """After an absence, what was written an hour apart arrives at once."""
        if last.written_at is None or message.written_at is None:
            return True
        return message.written_at - last.written_at <= self.seconds + _CLOCK_STEP

    def _wait(self, key: _Key) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(self.seconds, self.flush, key)


def _joined(parts: list[ChatMessage]) -> ChatMessage:
    """Under the first one's id. In a group it is enough that one of them names the bot."""
    first = parts[0]
    return replace(
        first,
        text="\n".join(part.text for part in parts if part.text),
        attachments=tuple(attachment for part in parts for attachment in part.attachments),
        addressed=any(part.addressed for part in parts),
        quote=next((part.quote for part in parts if part.quote), None),
        further_parts=tuple(part.id for part in parts[1:]),
    )
