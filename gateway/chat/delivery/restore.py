"""What was on its way when Hermes stopped, as it is to be shown now."""

from __future__ import annotations

from gateway.chat.delivery.file_message import FileMessage, workspace_reader
from gateway.chat.delivery.item import DeliveryItem
from gateway.chat.delivery.outbox_tracker import OutboxHandle
from gateway.chat.delivery.pacing import ChatTarget
from gateway.chat.delivery.status_message import StaleMessage
from gateway.chat.delivery.text_message import Style, TextMessage
from gateway.store.ports import UNREADABLE, file_from


def restore_item(entry: OutboxHandle, venue: ChatTarget) -> DeliveryItem | None:
    """Of one whose content is known, or that must not stay. None if nothing can be made of it."""
    outgoing = entry.outgoing
    progress, content = outgoing.progress, outgoing.content or ""
    if outgoing.kind == "transient":
        return StaleMessage(venue, entry)
    if outgoing.kind == "file":
        try:
            file = file_from(content)
        except ValueError:
            entry.park(UNREADABLE)
            return None
        in_doubt = progress.state == "sending"
        return FileMessage(
            venue, file.name, workspace_reader(file), file.caption, entry=entry, in_doubt=in_doubt
        )
    is_quiet = outgoing.kind == "notice" and not content.startswith("⚠")
    return TextMessage(
        venue,
        Style(silent=is_quiet),
        whole=progress.remainder + content[progress.sent_chars :],
        reply_to="" if progress.shown_in else outgoing.reply_to,
        entry=entry,
        so_far=progress,
    )
