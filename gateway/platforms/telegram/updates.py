"""Updates as they come over the wire. One that the library cannot read must not be asked for for ever."""

from __future__ import annotations

from typing import Any

import structlog
from telegram import Update

log = structlog.get_logger(__name__)

UNREADABLE = (TypeError, KeyError, ValueError, AttributeError, IndexError, OverflowError, OSError)
"""What the library raises for what it does not expect; the last two for dates beyond all time."""

ALLOWED_UPDATES = ("message", "edited_message", "callback_query", "my_chat_member")


def readable(update: dict[str, Any]) -> dict[str, Any]:
    """The update, or one of the same number with nothing in it, which is confirmed and passed over."""
    try:
        Update.de_json(update, None)
    except UNREADABLE as error:
        number = update["update_id"]
        log.warning("telegram.update_unreadable", update_id=number, error=type(error).__name__)
        return {"update_id": number}
    return update
