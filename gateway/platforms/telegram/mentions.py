"""Names that notify nobody. Telegram finds `@name` in a text by itself and tells that member of a group.

A link that already stands there is left alone, so the name becomes one: to where it would have led anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from telegram import MessageEntity

from gateway.platforms.telegram.entities import MOST
from gateway.text.measure import utf16_units

_NAME = re.compile(r"(?<![\w@/])@([A-Za-z][A-Za-z0-9_]{3,31})(?!\w)")
"""Not behind a slash: that is a part of an address."""

_NOTHING_FOUND_WITHIN = (MessageEntity.CODE, MessageEntity.PRE, MessageEntity.TEXT_LINK)


def notifying_nobody(text: str, entities: Sequence[MessageEntity]) -> Sequence[MessageEntity]:
    """The entities, and a link for each name that Telegram would find."""
    links = [link for link in _links(text) if all(_goes_with(link, entity) for entity in entities)]
    if len(links) > MOST:
        # More names than links that Telegram takes. In code it finds none.
        return [MessageEntity(MessageEntity.CODE, 0, utf16_units(text))]
    return [*links, *entities][:MOST] if links else entities


def _links(text: str) -> Iterator[MessageEntity]:
    for name in _NAME.finditer(text):
        begin = utf16_units(text[: name.start()])
        yield MessageEntity(MessageEntity.TEXT_LINK, begin, len(name[0]), url=f"https://t.me/{name[1]}")


def _goes_with(link: MessageEntity, entity: MessageEntity) -> bool:
    end, entity_end = link.offset + link.length, entity.offset + entity.length
    if end <= entity.offset or entity_end <= link.offset:
        return True
    is_around = entity.offset <= link.offset and end <= entity_end
    return is_around and entity.type not in _NOTHING_FOUND_WITHIN
