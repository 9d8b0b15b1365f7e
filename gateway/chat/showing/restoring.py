"""What was on its way when Hermes stopped, as it is to be shown now."""

from __future__ import annotations

from gateway.chat.showing.block import Block
from gateway.chat.showing.ledger import Entry
from gateway.chat.showing.parcel import Parcel, file_of
from gateway.chat.showing.passage import Passage, Style
from gateway.chat.showing.remains import Remains
from gateway.chat.showing.venue import Venue
from gateway.outbox import UNREADABLE, file_from


def restored(entry: Entry, venue: Venue) -> Block | None:
    """Of one whose content is known, or that must not stay. None if nothing can be made of it."""
    outgoing = entry.outgoing
    progress, content = outgoing.progress, outgoing.content or ""
    if outgoing.kind == "fleeting":
        return Remains(venue, entry)
    if outgoing.kind == "file":
        try:
            file = file_from(content)
        except ValueError:
            entry.park(UNREADABLE)
            return None
        in_doubt = progress.state == "sending"
        return Parcel(venue, file.name, file_of(file), file.caption, entry=entry, in_doubt=in_doubt)
    is_quiet = outgoing.kind == "notice" and not content.startswith("⚠")
    return Passage(
        venue,
        Style(silent=is_quiet),
        whole=progress.rest + content[progress.dealt :],
        reply_to="" if progress.shown_in else outgoing.reply_to,
        entry=entry,
        so_far=progress,
    )
