"""Entities as Telegram accepts them: of kinds that notify nobody, properly nested, and not too many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from telegram import MessageEntity

if TYPE_CHECKING:
    from telegramify_markdown import MessageEntity as Rendered

MOST = 100
"""Telegram leaves out the rest without a word."""

_QUOTES = ("blockquote", "expandable_blockquote")
_CODE = ("pre", "code")
_STYLES = ("spoiler", "bold", "strikethrough", "italic")
_BY_WORTH = ("pre", "text_link", *_QUOTES, "code", *_STYLES)
"""The kinds we send, those first that are missed most. A mention, which would notify, is not among them."""


def useful_entities(rendered: Iterable[Rendered], length: int) -> Iterator[MessageEntity]:
    """`length`: of the text, in UTF-16 units."""
    kept = [_clipped(entity, length) for entity in rendered if entity.type in _BY_WORTH]
    kept = _nested(sorted(kept, key=_outer_first))
    kept.sort(key=lambda entity: (_BY_WORTH.index(entity.type), entity.offset))
    for entity in sorted(kept[:MOST], key=_outer_first):
        yield MessageEntity(
            entity.type, entity.offset, entity.length, url=entity.url, language=_language(entity.language)
        )


def _outer_first(entity: Rendered) -> tuple[int, int, int]:
    return entity.offset, -entity.length, _BY_WORTH.index(entity.type)


def _clipped(entity: Rendered, length: int) -> Rendered:
    return replace(entity, length=min(entity.length, length - entity.offset))


def _nested(entities: Sequence[Rendered]) -> list[Rendered]:
    """Quotes not in quotes, links not in links, code not in links, no style on code."""
    links = _without_inner([entity for entity in entities if entity.type == "text_link"])
    quotes = _without_inner([entity for entity in entities if entity.type in _QUOTES])
    code = [entity for entity in entities if entity.type in _CODE and not _is_within_any(entity, links)]
    styled = [
        part
        for style in _STYLES
        for entity in _without_inner([entity for entity in entities if entity.type == style])
        for part in _around(entity, code)
    ]
    return [entity for entity in [*links, *quotes, *code, *styled] if entity.length > 0]


def _without_inner(entities: Iterable[Rendered]) -> list[Rendered]:
    """`entities`: outer ones first."""
    kept: list[Rendered] = []
    for entity in entities:
        if not kept or entity.offset >= kept[-1].offset + kept[-1].length:
            kept.append(entity)
    return kept


def _is_within_any(entity: Rendered, others: Iterable[Rendered]) -> bool:
    return any(other.offset <= entity.offset < other.offset + other.length for other in others)


def _around(entity: Rendered, code: Iterable[Rendered]) -> Iterator[Rendered]:
    """The parts of a styled stretch that are not code."""
    begin, end = entity.offset, entity.offset + entity.length
    for hole in code:
        if begin <= hole.offset < end:
            yield replace(entity, offset=begin, length=hole.offset - begin)
            begin = hole.offset + hole.length
    yield replace(entity, offset=begin, length=end - begin)


def _language(info: str | None) -> str | None:
    """Without the file name that may follow it."""
    words = (info or "").replace(":", " ").split()
    return words[0] if words else None
