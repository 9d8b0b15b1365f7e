"""Updates as Telegram writes them, one of each kind that means something to Hermes."""

from __future__ import annotations

from typing import Any

_ADA = {"id": 500_001, "is_bot": False, "first_name": "Ada", "last_name": "L", "username": "ada_l"}
_BOT = {"id": 7_000_000_001, "is_bot": True, "first_name": "Hermes", "username": "hermes_bot"}
_DIRECT = {"id": 500_001, "type": "private", "first_name": "Ada", "username": "ada_l"}
_FORUM = {"id": -1_001_000_000_001, "type": "supergroup", "title": "Team", "is_forum": True}
_FILE = {"file_id": "AgAD", "file_unique_id": "u1", "file_size": 1200}
_PHOTO = {**_FILE, "width": 90, "height": 60}


def _message(chat: dict[str, Any] = _DIRECT, **fields: Any) -> dict[str, Any]:
    return {"message_id": 17, "from": _ADA, "chat": chat, "date": 1_760_000_000, **fields}


_QUOTED = _message(text="an earlier word")
_IN_GROUP = {
    "text": "@hermes_bot what is this?",
    "entities": [{"type": "mention", "offset": 0, "length": 11}, {"type": "bold", "offset": 12, "length": 4}],
    "message_thread_id": 4,
    "is_topic_message": True,
}
_MESSAGES = [
    _message(text="/compress billing", entities=[{"type": "bot_command", "offset": 0, "length": 9}]),
    _message(_FORUM, **_IN_GROUP),
    _message(_FORUM, text="and this", reply_to_message=_QUOTED, quote={"text": "earlier", "position": 3}),
    _message(text="told", forward_origin={"type": "user", "sender_user": _ADA, "date": 1_760_000_000}),
    _message(photo=[_PHOTO, {**_PHOTO, "width": 900}], caption="look", media_group_id="13"),
    _message(document={**_FILE, "file_name": "a.csv", "mime_type": "text/csv"}),
    _message(voice={**_FILE, "duration": 3, "mime_type": "audio/ogg"}),
    _message(venue={"location": {"latitude": 1.0, "longitude": 2.0}, "title": "Pier", "address": "East"}),
    _message(contact={"phone_number": "+4700000000", "first_name": "Ben"}),
    _message(
        poll={
            "id": "1",
            "question": "Tea?",
            "options": [{"persistent_id": "1", "text": "yes", "voter_count": 0}],
            "total_voter_count": 0,
            "is_closed": False,
            "is_anonymous": True,
            "type": "regular",
            "allows_multiple_answers": False,
            "allows_revoting": False,
            "members_only": False,
        }
    ),
    _message(_FORUM, sender_chat=_FORUM, text="in the name of the group"),
    _message(_FORUM, migrate_to_chat_id=-1_001_000_000_002),
]
_MEMBER = {"user": _BOT, "status": "member"}

UPDATES: list[dict[str, Any]] = [
    *({"update_id": 1, "message": message} for message in _MESSAGES),
    {"update_id": 1, "edited_message": {**_MESSAGES[0], "edit_date": 1_760_000_009}},
    {
        "update_id": 1,
        "callback_query": {
            "id": "4000",
            "from": _ADA,
            "message": _message(text="May I?"),
            "chat_instance": "77",
            "data": "approve:abc:once",
        },
    },
    {
        "update_id": 1,
        "my_chat_member": {
            "chat": _FORUM,
            "from": _ADA,
            "date": 1_760_000_000,
            "old_chat_member": {"user": _BOT, "status": "left"},
            "new_chat_member": _MEMBER,
        },
    },
]
