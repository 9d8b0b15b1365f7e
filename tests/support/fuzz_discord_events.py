"""The data of MESSAGE_CREATE as Discord writes it, one of each kind that means something to Hermes."""

from __future__ import annotations

from typing import Any

ME = 1_100_000_000_000_000_001
_WHEN = "2026-01-02T03:04:05.678000+00:00"
_ADA = {
    "id": "1100000000000000002",
    "username": "ada",
    "discriminator": "0",
    "avatar": None,
    "global_name": "Ada",
}
_BOT = {"id": str(ME), "username": "Hermes", "discriminator": "0", "avatar": None, "bot": True}
_MEMBER = {"roles": ["1100000000000000009"], "joined_at": _WHEN, "deaf": False, "mute": False, "flags": 0}
_FILE = {
    "id": "1100000000000000030",
    "filename": "a.csv",
    "size": 12,
    "url": "http://127.0.0.1:9/a.csv",
    "proxy_url": "http://127.0.0.1:9/a.csv",
    "content_type": "text/csv",
}


def _message(**fields: Any) -> dict[str, Any]:
    return {
        "id": "1100000000000000020",
        "channel_id": "1100000000000000010",
        "author": _ADA,
        "type": 0,
        "content": "hello",
        "embeds": [],
        "attachments": [],
        "components": [],
        "timestamp": _WHEN,
        "edited_timestamp": None,
        "tts": False,
        "pinned": False,
        "flags": 0,
        "mention_everyone": False,
        "mention_roles": [],
        "mentions": [],
        "reactions": [],
        "channel_type": 1,
        **fields,
    }


_SNAPSHOT = {
    "type": 0,
    "content": "from elsewhere",
    "embeds": [],
    "attachments": [{**_FILE, "waveform": "AA==", "duration_secs": 1.5, "content_type": "audio/ogg"}],
    "timestamp": _WHEN,
    "edited_timestamp": None,
    "flags": 0,
    "mentions": [],
    "mention_roles": [],
}

EVENTS = [
    _message(content="/compress billing"),
    _message(
        content=f"<@{ME}> what is <#1100000000000000010> and <:ok:1100000000000000077>?",
        mentions=[{**_BOT, "member": _MEMBER}],
        guild_id="1100000000000000050",
        member=_MEMBER,
        channel_type=0,
    ),
    _message(
        type=19,
        message_reference={
            "type": 0,
            "message_id": "1100000000000000019",
            "channel_id": "1100000000000000010",
        },
        referenced_message=_message(id="1100000000000000019", author=_BOT, attachments=[_FILE]),
    ),
    _message(attachments=[_FILE, {**_FILE, "content_type": "image/png", "width": 4, "height": 3}]),
    _message(
        content="",
        message_reference={
            "type": 1,
            "message_id": "1100000000000000018",
            "channel_id": "1100000000000000011",
        },
        message_snapshots=[{"message": _SNAPSHOT}],
    ),
    _message(
        webhook_id="1100000000000000060", content="@everyone <@&1100000000000000009>", mention_everyone=True
    ),
    _message(sticker_items=[{"id": "1100000000000000070", "name": "wave", "format_type": 1}], content=""),
    _message(
        embeds=[{"type": "rich", "title": "A link", "description": "of somebody"}], content="https://x.y"
    ),
]
