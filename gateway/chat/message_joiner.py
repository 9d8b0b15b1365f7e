"""Joins messages that arrive in parts (an album, a split paste), and remembers the newest messages of a bot."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, replace

from gateway.types import ChatMessage, InboundMessage, Place

_MAX_PARTS = 100
_CLOCK_TOLERANCE = 2.0
"""Seconds. Services report whole seconds, and deliver two parts some time apart."""
_Key = tuple[Place, str]


class JoinedMessage:
    """A message and the parts that continue it. It is due when no more parts are expected."""

    def __init__(self, first: ChatMessage, *, is_whole: bool) -> None:
        self.parts = [first]
        self._due: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timer: asyncio.TimerHandle | None = None
        if is_whole:
            self.finish()

    def is_due(self) -> bool:
        return self._due.done()

    def wait(self, seconds: float) -> None:
        """Become due after so many seconds, counted from now."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.finish)

    def finish(self) -> None:
        """Become due now."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._due.done():
            self._due.set_result(None)

    def cancel(self) -> None:
        """Cancel the tasks that wait for the message."""
        if self._timer is not None:
            self._timer.cancel()
        self._due.cancel()

    async def whole(self) -> ChatMessage:
        """Wait until the message is due, and return all parts as one message."""
        await self._due
        return _joined(self.parts)


class MessageJoiner:
    """Decides how long a message waits for its continuation. A message that is complete does not wait."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._held: dict[_Key, JoinedMessage] = {}

    def add(self, message: ChatMessage) -> JoinedMessage | None:
        """Return a new message, or None if this one continues a message that is not due yet."""
        key = (message.place, message.author.id)
        held = self._held.get(key)
        if held is not None and self.continues(message):
            held.parts.append(message)
            held.wait(self.seconds)
            if len(held.parts) >= _MAX_PARTS:
                held.finish()
            return None
        if held is not None:
            held.finish()
            del self._held[key]
        may_continue = bool(message.album) or message.maybe_unfinished
        joined = JoinedMessage(message, is_whole=not may_continue)
        if may_continue:
            self._held = {known: each for known, each in self._held.items() if not each.is_due()}
            self._held[key] = joined
            joined.wait(self.seconds)
        return joined

    def continues(self, message: ChatMessage) -> bool:
        """Whether the message continues one that is not due yet: an album continues with its own pictures, a paste
        with the text after a full part."""
        held = self._held.get((message.place, message.author.id))
        if held is None or held.is_due():
            return False
        last = held.parts[-1]
        if not self._is_soon_after(last, message):
            return False
        if last.album:
            return message.album == last.album
        return not message.album and not message.quote and message.command is None

    def replace(self, message: ChatMessage) -> bool:
        """Replace a part by its edited form. Returns False if no message with this part is waiting."""
        for held in self._held.values():
            for at, part in enumerate(held.parts):
                if not held.is_due() and (part.place, part.id) == (message.place, message.id):
                    held.parts[at] = replace(
                        message, album=part.album, maybe_unfinished=part.maybe_unfinished
                    )
                    return True
        return False

    def close(self) -> None:
        """Cancel all messages that are not due; their parts are in the inbox."""
        for held in self._held.values():
            held.cancel()
        self._held.clear()

    def _is_soon_after(self, last: ChatMessage, message: ChatMessage) -> bool:
        """Compare the times of writing: after an outage, messages written hours apart arrive together."""
        if last.written_at is None or message.written_at is None:
            return True
        return message.written_at - last.written_at <= self.seconds + _CLOCK_TOLERANCE


def _joined(parts: list[ChatMessage]) -> ChatMessage:
    """Merge the parts under the first one's id. In a group it is enough that one of them addresses the bot."""
    first = parts[0]
    if len(parts) == 1:
        return first
    return replace(
        first,
        text="\n".join(part.text for part in parts if part.text),
        attachments=tuple(attachment for part in parts for attachment in part.attachments),
        addressed=any(part.addressed for part in parts),
        quote=next((part.quote for part in parts if part.quote), None),
        further_parts=tuple(part.id for part in parts[1:]),
    )


_MAX_MESSAGES = 10_000


@dataclass(slots=True)
class SeenMessage:
    """A message that the bot has received."""

    text: str
    is_remark: bool = False
    """Whether the message was said in a group but not to the bot."""
    conversation_id: str = ""
    inbound: InboundMessage | None = None
    """The queued message, if an edit may replace it: plain text without quotes, remarks and files."""


class RecentMessages:
    """The newest messages by place and id."""

    def __init__(self) -> None:
        self._messages: OrderedDict[tuple[Place, str], SeenMessage] = OrderedDict()

    def add(self, message: ChatMessage) -> None:
        self._messages[message.place, message.id] = SeenMessage(message.text)
        if len(self._messages) > _MAX_MESSAGES:
            self._messages.popitem(last=False)

    def forget(self, message: ChatMessage) -> None:
        """Forget a message that could not be persisted; the service delivers it again."""
        self._messages.pop((message.place, message.id), None)

    def get(self, message: ChatMessage) -> SeenMessage | None:
        return self._messages.get((message.place, message.id))
