"""A file for the person."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agent.errors import ToolError
from agent.events import FileSent
from agent.tool_support.workspace import Workspace
from gateway.chat.contract import ChatPort
from gateway.chat.errors import ContentRefused, DeliveryError, Unreachable
from gateway.chat.showing.block import AT_ONCE, NEVER, POSSIBLY_TWICE, Block
from gateway.chat.showing.calls import Call, SendFile
from gateway.chat.showing.timing import Timing
from gateway.chat.showing.venue import Venue


class _Unsendable(ContentRefused):
    """This file cannot be sent:"""


class Parcel(Block):
    def __init__(
        self,
        port: ChatPort,
        venue: Venue,
        timing: Timing,
        name: str,
        read: Callable[[], bytes],
        caption: str = "",
    ) -> None:
        super().__init__(venue, timing)
        self._name = name
        self._caption = caption
        self._doubtful = False
        limit = port.file_limit
        self._read = lambda: _within(limit, read())

    def due(self) -> float:
        return NEVER if self.over else AT_ONCE

    def call(self, now: float) -> Call:
        mark = POSSIBLY_TWICE if self._doubtful else ""
        return SendFile(self._name, self._read, "\n".join(filter(None, (self._caption, mark))))

    def done(self, call: Call, message_id: str, now: float) -> None:
        self.over = True

    def failed(self, call: Call, error: DeliveryError, now: float) -> str:
        if isinstance(error, Unreachable):
            self._doubtful |= error.maybe_done
        if not isinstance(error, ContentRefused) and not self._is_hopeless():
            return ""
        self.over = True
        return f"⚠ {self._name}: {error}"


def file_of(event: FileSent) -> Callable[[], bytes]:
    def read() -> bytes:
        try:
            return Workspace(Path(event.workspace)).read(event.path)
        except ToolError as error:
            raise _Unsendable(error.detail) from error

    return read


def _within(limit: int, data: bytes) -> bytes:
    if len(data) > limit:
        raise _Unsendable(f"it has {len(data):,} bytes, and the chat service takes {limit:,} at most.")
    return data
