"""Markdown as Telegram shows it: plain text and entities, so that there is nothing left for Telegram to parse.

Formatting is a courtesy: whenever it fails or does not fit, the text goes out as it was written.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import structlog
from telegram import MessageEntity

from gateway.text.tables import render_tables
from gateway.text.unicode import is_blank, repair_surrogates, utf16_length

if TYPE_CHECKING:
    from telegramify_markdown import MessageEntity as Rendered
    from telegramify_markdown import RenderConfig
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


_NAME = re.compile(r"(?<![\w@/])@([A-Za-z][A-Za-z0-9_]{3,31})(?!\w)")
"""Not behind a slash: that is a part of an address."""

_NOTHING_FOUND_WITHIN = (MessageEntity.CODE, MessageEntity.PRE, MessageEntity.TEXT_LINK)


def notifying_nobody(text: str, entities: Sequence[MessageEntity]) -> Sequence[MessageEntity]:
    """The entities, and a link for each name that Telegram would find."""
    links = [link for link in _links(text) if all(_goes_with(link, entity) for entity in entities)]
    if len(links) > MOST:
        # More names than links that Telegram takes. In code it finds none.
        return [MessageEntity(MessageEntity.CODE, 0, utf16_length(text))]
    return [*links, *entities][:MOST] if links else entities


def _links(text: str) -> Iterator[MessageEntity]:
    for name in _NAME.finditer(text):
        begin = utf16_length(text[: name.start()])
        yield MessageEntity(MessageEntity.TEXT_LINK, begin, len(name[0]), url=f"https://t.me/{name[1]}")


def _goes_with(link: MessageEntity, entity: MessageEntity) -> bool:
    end, entity_end = link.offset + link.length, entity.offset + entity.length
    if end <= entity.offset or entity_end <= link.offset:
        return True
    is_around = entity.offset <= link.offset and end <= entity_end
    return is_around and entity.type not in _NOTHING_FOUND_WITHIN


LIMIT = 4096
"""UTF-16 units in one message."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Formatted:
    text: str
    entities: tuple[MessageEntity, ...] = ()


def formatted(markdown: str) -> Formatted:
    """One message. What is not longer than the limit does not become so."""
    markdown = repair_surrogates(markdown)
    try:
        # A table may take more room as a list; then it has to do with the renderer's own drawing.
        candidates = (_rendered(version) for version in dict.fromkeys([render_tables(markdown), markdown]))
        return next((found for found in candidates if _is_sendable(found)), Formatted(markdown))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:  # noqa: BLE001  a panic in the parser's Rust is no ordinary Exception
        log.warning("telegram.formatting_failed", error=type(problem).__name__, length=len(markdown))
        return Formatted(markdown)


def _rendered(markdown: str) -> Formatted:
    # 60 ms to load, not needed before the first answer.
    from telegramify_markdown.converter import STANDARD_OPTIONS, convert  # noqa: PLC0415

    from gateway.platforms.telegram.markdown_escape import literal  # noqa: PLC0415

    source = literal(_unindented(markdown), STANDARD_OPTIONS)
    text, entities = convert(source, latex_escape=False, config=_look())
    text = text.rstrip()
    return Formatted(text, tuple(useful_entities(entities, utf16_length(text))))


def _is_sendable(message: Formatted) -> bool:
    return utf16_length(message.text) <= LIMIT and not is_blank(message.text)


def _unindented(markdown: str) -> str:
    """A message that goes on within a list begins indented; without the list, that would mean code."""
    lines = markdown.split("\n")
    margin = len(lines[0]) - len(lines[0].lstrip(" "))
    if not margin:
        return markdown
    for index, line in enumerate(lines):
        if line.strip() and not line.startswith(" " * margin):
            break
        lines[index] = line[margin:]
    return "\n".join(lines)


@cache
def _look() -> RenderConfig:
    """Quieter than the renderer's own: no pictures in front of headings."""
    from telegramify_markdown import RenderConfig  # noqa: PLC0415  see above

    # Its complaints about formulas may quote them, and an answer does not belong into a log.
    logging.getLogger("telegramify_markdown").setLevel(logging.CRITICAL)
    config = RenderConfig.isolated()
    symbols = config.markdown_symbol
    for level in range(1, 7):
        setattr(symbols, f"heading_level_{level}", "")
    symbols.unordered_list_item = "•"
    symbols.task_completed = "☑"
    symbols.task_uncompleted = "☐"
    symbols.image = "🖼 "
    return config
