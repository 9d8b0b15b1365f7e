"""Text with entities as Telegram takes it: counted in UTF-16 units, trimmed, nested and bounded."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.telegram.errors import bad_request

MAX_TEXT = 4096
MAX_CAPTION = 1024
MAX_ENTITIES = 100

STYLES = frozenset((
    "bold", "italic", "underline", "strikethrough", "spoiler", "blockquote", "expandable_blockquote",
    "code", "pre", "text_link", "text_mention", "custom_emoji", "date_time",
))  # fmt: skip
_FOUND_BY_THE_SERVER = frozenset(
    ("mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number", "bank_card_number")
)
_NEEDED = {"text_link": "url", "text_mention": "user", "custom_emoji": "custom_emoji_id"}
_QUOTES = ("blockquote", "expandable_blockquote")
_LINK = re.compile(
    r"(?:(?:tg|ton|tonsite)://\S+|(?:https?://)?(?:[^\s/@?#]+@)?(?:[\w-]+(?:\.[\w-]+)+|\[[\da-f:.]+\])\.?(?::\d+)?(?:[/?#]\S*)?)",
    re.IGNORECASE,
)

Entity = dict[str, Any]


@dataclass(slots=True)
class Formatted:
    text: str
    entities: list[Entity] = field(default_factory=list)


def units(text: str) -> int:
    """The length as Telegram counts it."""
    return len(text) + sum(ord(character) > 0xFFFF for character in text)


def cut(text: str, offset: int, length: int) -> str:
    """The part of the text an entity covers."""
    encoded = text.encode("utf-16-le")
    return encoded[2 * offset : 2 * (offset + length)].decode("utf-16-le")


def is_link(url: str) -> bool:
    """What Telegram would open: a host needs a dot, a path alone is none."""
    return _LINK.fullmatch(url) is not None


def checked_entities(text: str, raw: list[Any]) -> Formatted:
    """The `entities` of a request. Raises Refused for what does not fit the text."""
    entities = [entity for entity in map(_checked, raw) if entity is not None]
    entities.sort(key=lambda entity: (entity["offset"], -entity["length"]))
    _check_ends(text, entities)
    return Formatted(text, nested(entities))


def _checked(raw: Any) -> Entity | None:
    if not isinstance(raw, dict):
        raise bad_request("can't parse MessageEntity: expected an Object")
    for name in ("offset", "length"):
        if not isinstance(raw.get(name), int):
            raise bad_request(f"can't parse MessageEntity: Can't find field \"{name}\"")
    kind = raw.get("type")
    if kind not in STYLES and kind not in _FOUND_BY_THE_SERVER:
        raise bad_request("can't parse MessageEntity: Unsupported type specified")
    needed = _NEEDED.get(kind)
    if needed is not None and not raw.get(needed):
        raise bad_request(f"can't parse MessageEntity: Can't find field \"{needed}\"")
    if kind == "text_link" and not is_link(raw["url"]):
        raise bad_request(f"entity URL '{raw['url']}' is invalid: Wrong HTTP URL")
    return raw if kind in STYLES and raw["length"] > 0 else None


def _check_ends(text: str, entities: list[Entity]) -> None:
    encoded = text.encode("utf-16-le")
    total = len(encoded) // 2

    def inside_a_pair(position: int) -> bool:
        return position < total and 0xDC <= encoded[2 * position + 1] <= 0xDF

    for entity in entities:
        start, end = entity["offset"], entity["offset"] + entity["length"]
        if start < 0:
            raise bad_request("receive an entity with incorrect offset")
        if end > total:
            raise bad_request(
                f"entity beginning at UTF-16 offset {start} ends after the end of the text at UTF-16 offset {end}"
            )
        if inside_a_pair(start):
            raise bad_request(f"entity begins in a middle of a UTF-16 symbol at byte offset {start}")
        if inside_a_pair(end):
            raise bad_request(
                f"entity beginning at UTF-16 offset {start} ends in a middle of a UTF-16 symbol at byte offset {end}"
            )


def nested(entities: list[Entity]) -> list[Entity]:
    """Sorted entities without those that may not be where they are. Half an overlap is refused."""
    kept: list[Entity] = []
    around: list[Entity] = []
    for entity in sorted(entities, key=lambda entity: (entity["offset"], -entity["length"])):
        end = entity["offset"] + entity["length"]
        while around and around[-1]["offset"] + around[-1]["length"] <= entity["offset"]:
            around.pop()
        if around and end > around[-1]["offset"] + around[-1]["length"]:
            raise bad_request(
                f"can't parse entities: entity beginning at UTF-16 offset {entity['offset']} overlaps another one"
            )
        if not any(_forbids(outer["type"], entity["type"]) for outer in around):
            kept.append(entity)
            around.append(entity)
    return kept[:MAX_ENTITIES]


def _forbids(outer: str, inner: str) -> bool:
    if outer in ("code", "pre"):
        return True
    if outer in _QUOTES and inner in _QUOTES:
        return True
    return outer in ("text_link", "text_mention") and inner in ("text_link", "text_mention")


def trimmed(formatted: Formatted) -> Formatted:
    """Space around a message is not kept; space an entity begins with is."""
    text, entities = formatted.text, formatted.entities
    lead = len(text) - len(text.lstrip())
    if entities:
        lead = min(lead, entities[0]["offset"])
    text = text[lead:].rstrip()
    total = units(text)
    moved = [
        entity
        | {
            "offset": entity["offset"] - lead,
            "length": min(entity["length"], total - entity["offset"] + lead),
        }
        for entity in entities
    ]
    return Formatted(text, [entity for entity in moved if entity["length"] > 0])
