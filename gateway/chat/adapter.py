"""Ports between a chat platform's adapter and the gateway: inbound events and outbound calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gateway.text.unicode import Measure
from gateway.types import Button, ChatMessage, Place, Press


class InboundHandler(Protocol):
    """Receives the events of an adapter. The only error that an adapter must handle is StoreError."""

    async def open(self) -> float:
        """Resume the work of an earlier process. Called once the service can be reached, before any event. Return the
        time of the bot's very first start; the adapter ignores older messages."""
        ...

    async def message(self, message: ChatMessage) -> bool:
        """Accept a new message, or a slash command in its text form. Return whether its author may speak here; if not,
        nothing that the author wrote may become visible.

        When this returns, the message is persisted and may be acknowledged. If it raises StoreError, the message is
        not persisted and must be delivered again."""
        ...

    async def edited(self, message: ChatMessage) -> None:
        """Accept a message that its author has edited."""
        ...

    async def pressed(self, press: Press) -> str:
        """Handle a pressed button, and return a sentence for the person."""
        ...

    async def newest(self) -> dict[Place, str]:
        """Return the newest persisted message of each place, of any process; the most recently active place first."""
        ...

    async def close(self) -> None:
        """Stop. Called after the last event, while the platform can still send."""
        ...


class ChatPort(Protocol):
    """Calls to a chat service. They raise only the errors of `gateway/chat/errors.py`."""

    @property
    def platform(self) -> str:
        """`telegram`, or `telegram/work` for a bot with a name."""
        ...

    @property
    def limit(self) -> int:
        """The length of the longest message, in units of `measure`."""
        ...

    @property
    def measure(self) -> Measure: ...

    @property
    def can_edit(self) -> bool: ...

    @property
    def file_limit(self) -> int:
        """The size of the largest accepted file, in bytes."""
        ...

    def edit_seconds(self, place: Place) -> float:
        """Return the seconds to leave between two edits of one message."""
        ...

    async def direct(self, user_id: str) -> Place:
        """Open the direct chat with this account. Sending to it may still raise Undeliverable."""
        ...

    def pace_key(self, place: Place) -> str:
        """Return the key of the rate limit that applies. Places with the same key share one limit."""
        ...

    async def send(
        self,
        place: Place,
        text: str,
        *,
        formatted: bool = False,
        reply_to: str = "",
        buttons: Sequence[Button] = (),
        silent: bool = False,
    ) -> str:
        """Send a message and return its id. `formatted`: the text is Markdown; a service that cannot format it shows
        the source. `reply_to` is a message of the same place; the text is sent even if that message is gone."""
        ...

    async def edit(
        self,
        place: Place,
        message_id: str,
        text: str,
        *,
        formatted: bool = False,
        buttons: Sequence[Button] = (),
    ) -> None:
        """Replace text and buttons of one of our messages. An edit that changes nothing succeeds."""
        ...

    async def delete(self, place: Place, message_id: str) -> None:
        """Delete one of our messages. Succeeds if the message is gone already."""
        ...

    async def fetch(self, ref: str, name: str, size: int | None, most: int) -> bytes:
        """Download the attachment with this `ref`, at most `most` bytes. Raises AttachmentRefused."""
        ...

    async def typing(self, place: Place) -> None:
        """Show the typing indicator for a few seconds."""
        ...

    async def send_file(self, place: Place, name: str, data: bytes, *, caption: str = "") -> str: ...
