"""Ports between a chat platform's adapter and the gateway: inbound events and outbound calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gateway.text.unicode import Measure
from gateway.types import Button, ChatMessage, Place, Press


class InboundHandler(Protocol):
    """Takes in what an adapter has received. Raises nothing an adapter would have to handle, but for StoreError."""

    async def open(self) -> float:
        """Before anything comes in, once the service can be asked: takes up what was left at the last stop. Gives the
        time since when this bot listens, in whatever process; what is older was not written to it."""
        ...

    async def message(self, message: ChatMessage) -> bool:
        """A new message, or a slash command in its text form. Whether its author may speak here; if not, nothing that
        they wrote may become visible.

        Once this returns, the message is kept and may be acknowledged. If it raises StoreError it is not, and has to
        be handed in again."""
        ...

    async def edited(self, message: ChatMessage) -> None:
        """A message was changed by its author; `message` is its new form."""
        ...

    async def pressed(self, press: Press) -> str:
        """A sentence for the one who pressed."""
        ...

    async def newest(self) -> dict[Place, str]:
        """The newest message that was kept in each place, in whatever process; where people talked last comes first."""
        ...

    async def close(self) -> None:
        """Called by a platform that stops, once nothing more comes in and while it can still send."""
        ...


class ChatPort(Protocol):
    """What a chat service can be asked to do. Failures are the errors of `gateway/chat/errors.py`, nothing else."""

    @property
    def platform(self) -> str:
        """`telegram`, or `telegram/work` for a bot with a name."""
        ...

    @property
    def limit(self) -> int:
        """The longest message, by `measure`."""
        ...

    @property
    def measure(self) -> Measure: ...

    @property
    def can_edit(self) -> bool: ...

    @property
    def file_limit(self) -> int:
        """The largest file it takes, in bytes."""
        ...

    def edit_seconds(self, place: Place) -> float:
        """The pace at which one message there may be edited for as long as an answer lasts."""
        ...

    async def direct(self, user_id: str) -> Place:
        """The direct chat with this account, opened if need be. It may still turn out Undeliverable."""
        ...

    def pace_key(self, place: Place) -> str:
        """Places with the same key share one limit of the service."""
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
        """A new message; gives its id. `formatted`: the text is Markdown, to be shown as such where that is possible
        and else as it is. `reply_to` is a message of the same place; if it is gone, the text is sent all the same."""
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
        """Replaces text and buttons of one of our messages. An edit that changes nothing is no failure."""
        ...

    async def delete(self, place: Place, message_id: str) -> None:
        """Removes one of our messages. One that is gone already is no failure."""
        ...

    async def fetch(self, ref: str, name: str, size: int | None, most: int) -> bytes:
        """The attachment with this `ref`. Raises AttachmentRefused."""
        ...

    async def typing(self, place: Place) -> None:
        """Shows for a few seconds that something is being written."""
        ...

    async def send_file(self, place: Place, name: str, data: bytes, *, caption: str = "") -> str: ...
