"""A file for the person."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agent.errors import ToolError
from agent.events import FileSent
from agent.tool_support.workspace import Workspace
from gateway.chat.delivery.item import AT_ONCE, NEVER, POSSIBLY_TWICE, Call, DeliveryItem, SendFile
from gateway.chat.delivery.outbox_tracker import OutboxHandle
from gateway.chat.delivery.pacing import ChatTarget
from gateway.chat.errors import ContentRefused, DeliveryError, Undeliverable, Unreachable
from gateway.store.ports import DeliveryProgress
from gateway.text.display import inline_code


class _Unsendable(ContentRefused):
    """This file cannot be sent:"""


class FileMessage(DeliveryItem):
    """Whatever happens to it, what comes after it is shown."""

    def __init__(
        self,
        venue: ChatTarget,
        name: str,
        read: Callable[[], bytes],
        caption: str = "",
        *,
        entry: OutboxHandle | None = None,
        in_doubt: bool = False,
    ) -> None:
        """`in_doubt`: an earlier process may have sent it."""
        super().__init__(venue, entry)
        self._name = name
        self._caption = caption
        self._doubtful_tries = int(in_doubt)
        limit = venue.port.file_limit
        self._read = lambda: _within(limit, read())

    def due(self) -> float:
        return NEVER if self.over else AT_ONCE

    def call(self, now: float) -> Call:
        mark = POSSIBLY_TWICE if self._doubtful_tries else ""
        self._note(DeliveryProgress("sending"))
        return SendFile(self._name, self._read, "\n".join(filter(None, (self._caption, mark))))

    def done(self, call: Call, message_id: str, now: float) -> None:
        self.over = True
        self._note(DeliveryProgress("sent", (message_id,)))

    def put_off(self) -> None:
        super().put_off()
        self._note_waiting()

    def failed(self, call: Call, error: DeliveryError, now: float) -> str:
        if isinstance(error, Unreachable) and error.maybe_done:
            self._doubtful_tries += 1
        is_refused = isinstance(error, ContentRefused | Undeliverable)
        if not is_refused and not self._is_hopeless(now):
            self._note_waiting()
            return ""
        self.over = True
        self.give_up(str(error))
        # Where files are forbidden, the text that follows may still be allowed.
        reason = f"I may not send files here. {error.detail}" if isinstance(error, Undeliverable) else error
        return f"⚠ {inline_code(self._name)}: {reason}"

    def _note_waiting(self) -> None:
        self._note(DeliveryProgress("sending" if self._doubtful_tries else "pending"))

    def _note(self, progress: DeliveryProgress) -> None:
        if self.entry:
            self.entry.note(progress)

    def _is_hopeless(self, now: float) -> bool:
        """Each upload may take a minute and leave another copy; and the answer is waiting behind it."""
        return self._doubtful_tries >= self.venue.timing.uploads or super()._is_hopeless(now)


def workspace_reader(event: FileSent) -> Callable[[], bytes]:
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
