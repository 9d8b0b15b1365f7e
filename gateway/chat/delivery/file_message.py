"""A file that is sent to a chat."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agent.errors import ToolError
from agent.events import FileSent
from agent.tool_support.workspace import Workspace
from gateway.chat.delivery.item import (
    IMMEDIATELY,
    NEVER,
    POSSIBLY_TWICE,
    Call,
    DeliveryItem,
    OutboxHandle,
    SendFile,
)
from gateway.chat.delivery.pacing import ChatTarget
from gateway.chat.errors import ContentRefused, DeliveryError, Undeliverable, Unreachable
from gateway.store.ports import DeliveryProgress
from gateway.text.display import inline_code


class _Unsendable(ContentRefused):
    """This file cannot be sent:"""


class FileMessage(DeliveryItem):
    """Delivers a file. A file that fails does not stop the items after it.

    `maybe_sent`: an earlier process may have sent the file.
    """

    def __init__(
        self,
        target: ChatTarget,
        name: str,
        read: Callable[[], bytes],
        caption: str = "",
        *,
        handle: OutboxHandle | None = None,
        maybe_sent: bool = False,
    ) -> None:
        super().__init__(target, handle)
        self._name = name
        self._caption = caption
        self._doubtful_uploads = int(maybe_sent)
        limit = target.port.file_limit
        self._read = lambda: _check_size(read(), limit)

    def due(self) -> float:
        return NEVER if self.finished else IMMEDIATELY

    def next_call(self, now: float) -> Call:
        mark = POSSIBLY_TWICE if self._doubtful_uploads else ""
        self._save(DeliveryProgress("sending"))
        return SendFile(self._name, self._read, "\n".join(filter(None, (self._caption, mark))))

    def on_success(self, call: Call, message_id: str, now: float) -> None:
        self.finished = True
        self._save(DeliveryProgress("sent", (message_id,)))

    def reschedule(self) -> None:
        super().reschedule()
        self._save_waiting()

    def on_error(self, call: Call, error: DeliveryError, now: float) -> str:
        if isinstance(error, Unreachable) and error.maybe_done:
            self._doubtful_uploads += 1
        is_refused = isinstance(error, ContentRefused | Undeliverable)
        if not is_refused and not self._has_timed_out(now):
            self._save_waiting()
            return ""
        self.finished = True
        self.abandon(str(error))
        # A chat that forbids files may still accept the text that follows.
        reason = f"I may not send files here. {error.detail}" if isinstance(error, Undeliverable) else error
        return f"⚠ {inline_code(self._name)}: {reason}"

    def _save_waiting(self) -> None:
        self._save(DeliveryProgress("sending" if self._doubtful_uploads else "pending"))

    def _save(self, progress: DeliveryProgress) -> None:
        if self.handle:
            self.handle.update(progress)

    def _has_timed_out(self, now: float) -> bool:
        """Limit the uploads, too: each may take a minute and leave another copy, and the answer waits behind it."""
        return self._doubtful_uploads >= self.target.timing.max_uploads or super()._has_timed_out(now)


def workspace_reader(event: FileSent) -> Callable[[], bytes]:
    """Return a function that reads the file from its workspace."""

    def read() -> bytes:
        try:
            return Workspace(Path(event.workspace)).read(event.path)
        except ToolError as error:
            raise _Unsendable(error.detail) from error

    return read


def _check_size(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise _Unsendable(f"it has {len(data):,} bytes, and the chat service takes {limit:,} at most.")
    return data
