"""Converts Markdown to text and entities for Telegram, which then parses nothing itself.

The renderer would drop HTML and link definitions, read `$HOME:$PATH` as a formula and `a || b || c` as a spoiler, and a
link to a person would notify them. All of these get a backslash first, so that they appear as written. If the
conversion fails or the result does not fit, the text is sent as it was written.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import structlog
from telegram import MessageEntity

from agent.aio import ForeignError, foreign_code
from gateway.text.tables import render_tables
from gateway.text.unicode import is_blank, repair_surrogates, utf16_length

if TYPE_CHECKING:
    from telegramify_markdown import MessageEntity as Rendered
    from telegramify_markdown import RenderConfig

log = structlog.get_logger(__name__)

LIMIT = 4096
"""Longest message, in UTF-16 units."""
_MAX_ROUNDS = 8
"""Escaping one construct can reveal another; a few rounds suffice."""

_SAFE_ADDRESS = re.compile(r"(?:https?://|mailto:|tel:)\S", re.IGNORECASE)
_DEFINITION = re.compile(rb"^[ \t>*+\-0-9.)]*(\[(?:[^\]\\]|\\.){1,200}\]:)", re.MULTILINE)
_BARS = re.compile(rb"(?<![\\|])\|\|(?=[^\s|])[^|\n]*(?<=[^\s\\])\|\|(?!\|)|(?P<stray>\|{2,})")
_MATH = re.compile(r"\\[A-Za-z]|\w\^|\b[A-Za-z]_|\b[A-Za-z]\s*[=<>]|\A\s*\w\s*\Z")
_TEX_INLINE = re.compile(rb"\\\(((?:(?!\n[ \t]*\n).){1,500}?)\\\)", re.DOTALL)
_TEX_BLOCK = re.compile(rb"\\\[((?:(?!\n[ \t]*\n).){1,500}?)\\\]", re.DOTALL)

Range = tuple[int, int]


def escape_markdown(markdown: str) -> str:
    """Escape the Markdown that the renderer would not show as written."""
    source = _convert_tex_brackets(markdown.encode())
    for _ in range(_MAX_ROUNDS):
        offsets = sorted({each for each in _offsets_to_escape(source) if not _is_escaped(source, each)})
        if not offsets:
            return source.decode()
        bounds = [0, *offsets, len(source)]
        source = b"\\".join(source[begin:end] for begin, end in pairwise(bounds))
    raise ValueError("The Markdown still needs escaping after all rounds.")


def _convert_tex_brackets(source: bytes) -> bytes:
    """Convert TeX brackets around formulas to dollar signs, except in code."""
    if b"\\(" not in source and b"\\[" not in source:
        return source

    def convert(text: bytes) -> bytes:
        text = _TEX_BLOCK.sub(lambda found: _formula(found, b"$$"), text)
        return _TEX_INLINE.sub(lambda found: _formula(found, b"$"), text)

    parts = []
    position = 0
    for begin, end in _code_ranges(_events(source)):
        parts += [convert(source[position:begin]), source[begin:end]]
        position = end
    return b"".join([*parts, convert(source[position:])])


def _formula(found: re.Match[bytes], sign: bytes) -> bytes:
    return sign + found[1].strip() + sign if _MATH.search(found[1].decode()) else found[0]


def _offsets_to_escape(source: bytes) -> Iterator[int]:
    """Yield the offsets of characters that need a backslash."""
    events = _events(source)
    for event, (begin, end) in events:
        if event == {"Start": "HtmlBlock"}:
            yield from (begin + found.start() for found in re.finditer(b"<", source[begin:end]))
        elif "InlineHtml" in event:
            yield begin
        elif "InlineMath" in event and not _MATH.search(event["InlineMath"]):
            yield from (begin, end - 1)
        elif "DisplayMath" in event and not _MATH.search(event["DisplayMath"]):
            yield from (begin, begin + 1, end - 2, end - 1)
        else:
            yield from _unsafe_link(event, source[begin:end], begin)
    yield from _outside_ranges(_code_ranges(events), _bars_and_definitions(source))


def _unsafe_link(event: Mapping[str, Any], written: bytes, begin: int) -> Iterator[int]:
    """Yield the offset of a link with an unsafe address or without text."""
    start = event.get("Start")
    if not isinstance(start, dict) or not ("Link" in start or "Image" in start):
        return
    target = (start.get("Link") or start["Image"])["dest_url"]
    is_empty = written.startswith((b"[](", b"![]("))
    if is_empty or not _SAFE_ADDRESS.match(target):
        yield begin + written.startswith(b"!")


def _bars_and_definitions(source: bytes) -> Iterator[int]:
    for bars in _BARS.finditer(source):
        if bars["stray"]:
            yield from range(bars.start(), bars.end())
    for definition in _DEFINITION.finditer(source):
        yield definition.start(1)


def _events(source: bytes) -> list[tuple[Mapping[str, Any], Range]]:
    """Return the parser's events that carry data, with their byte ranges."""
    import pyromark  # noqa: PLC0415 - loading takes long, and the first answer comes later
    from telegramify_markdown.converter import STANDARD_OPTIONS  # noqa: PLC0415

    found = pyromark.events_with_range(source.decode(), options=STANDARD_OPTIONS)
    return [(event, (place["start"], place["end"])) for event, place in found if isinstance(event, dict)]


def _code_ranges(events: Iterable[tuple[Mapping[str, Any], Range]]) -> list[Range]:
    """Return the ranges of code, in order and without nesting."""
    return [place for event, place in events if "Code" in event or "CodeBlock" in (event.get("Start") or ())]


def _outside_ranges(ranges: list[Range], offsets: Iterable[int]) -> Iterator[int]:
    begins = [begin for begin, _ in ranges]
    for offset in offsets:
        index = bisect_right(begins, offset) - 1
        if index < 0 or offset >= ranges[index][1]:
            yield offset


def _is_escaped(source: bytes, offset: int) -> bool:
    before = source[:offset]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1


MAX_ENTITIES = 100
"""Telegram silently drops further entities."""

_QUOTES = ("blockquote", "expandable_blockquote")
_CODE = ("pre", "code")
_STYLES = ("spoiler", "bold", "strikethrough", "italic")
_BY_IMPORTANCE = ("pre", "text_link", *_QUOTES, "code", *_STYLES)
"""Kinds of entities that are sent, the most important first. Mentions, which notify people, are not sent."""


def clean_entities(rendered: Iterable[Rendered], length: int) -> Iterator[MessageEntity]:
    """Return valid entities for a text of `length` UTF-16 units, at most MAX_ENTITIES."""
    kept = [_clip(entity, length) for entity in rendered if entity.type in _BY_IMPORTANCE]
    kept = _fix_nesting(sorted(kept, key=_outer_first))
    kept.sort(key=lambda entity: (_BY_IMPORTANCE.index(entity.type), entity.offset))
    for entity in sorted(kept[:MAX_ENTITIES], key=_outer_first):
        yield MessageEntity(
            entity.type, entity.offset, entity.length, url=entity.url, language=_language(entity.language)
        )


def _outer_first(entity: Rendered) -> tuple[int, int, int]:
    return entity.offset, -entity.length, _BY_IMPORTANCE.index(entity.type)


def _clip(entity: Rendered, length: int) -> Rendered:
    return replace(entity, length=min(entity.length, length - entity.offset))


def _fix_nesting(entities: Sequence[Rendered]) -> list[Rendered]:
    """Remove nesting that Telegram refuses: quotes in quotes, links in links, code in links, styles on code."""
    links = _drop_overlapping([entity for entity in entities if entity.type == "text_link"])
    quotes = _drop_overlapping([entity for entity in entities if entity.type in _QUOTES])
    code = [entity for entity in entities if entity.type in _CODE and not _is_inside(entity, links)]
    styled = [
        part
        for style in _STYLES
        for entity in _drop_overlapping([entity for entity in entities if entity.type == style])
        for part in _outside_code(entity, code)
    ]
    return [entity for entity in [*links, *quotes, *code, *styled] if entity.length > 0]


def _drop_overlapping(entities: Iterable[Rendered]) -> list[Rendered]:
    """Keep the outer entities; `entities` are sorted with outer ones first."""
    kept: list[Rendered] = []
    for entity in entities:
        if not kept or entity.offset >= kept[-1].offset + kept[-1].length:
            kept.append(entity)
    return kept


def _is_inside(entity: Rendered, others: Iterable[Rendered]) -> bool:
    return any(other.offset <= entity.offset < other.offset + other.length for other in others)


def _outside_code(entity: Rendered, code: Iterable[Rendered]) -> Iterator[Rendered]:
    """Yield the parts of a styled range that are not code."""
    begin, end = entity.offset, entity.offset + entity.length
    for hole in code:
        if begin <= hole.offset < end:
            yield replace(entity, offset=begin, length=hole.offset - begin)
            begin = hole.offset + hole.length
    yield replace(entity, offset=begin, length=end - begin)


def _language(info: str | None) -> str | None:
    """Return the language without a file name behind it."""
    words = (info or "").replace(":", " ").split()
    return words[0] if words else None


_NAME = re.compile(r"(?<![\w@/])@([A-Za-z][A-Za-z0-9_]{3,31})(?!\w)")
"""A user name, not behind a slash, where it is a part of an address."""

_NO_MENTIONS_INSIDE = (MessageEntity.CODE, MessageEntity.PRE, MessageEntity.TEXT_LINK)


def suppress_mentions(text: str, entities: Sequence[MessageEntity]) -> Sequence[MessageEntity]:
    """Add a link for each user name, so that Telegram does not turn it into a mention that notifies."""
    links = [
        link for link in _mention_links(text) if all(_is_compatible(link, entity) for entity in entities)
    ]
    if len(links) > MAX_ENTITIES:
        # More names than allowed links. Telegram finds no names in code.
        return [MessageEntity(MessageEntity.CODE, 0, utf16_length(text))]
    return [*links, *entities][:MAX_ENTITIES] if links else entities


def _mention_links(text: str) -> Iterator[MessageEntity]:
    for name in _NAME.finditer(text):
        begin = utf16_length(text[: name.start()])
        yield MessageEntity(MessageEntity.TEXT_LINK, begin, len(name[0]), url=f"https://t.me/{name[1]}")


def _is_compatible(link: MessageEntity, entity: MessageEntity) -> bool:
    end, entity_end = link.offset + link.length, entity.offset + entity.length
    if end <= entity.offset or entity_end <= link.offset:
        return True
    is_around = entity.offset <= link.offset and end <= entity_end
    return is_around and entity.type not in _NO_MENTIONS_INSIDE


@dataclass(frozen=True, slots=True)
class FormattedText:
    text: str
    entities: tuple[MessageEntity, ...] = ()


def format_markdown(markdown: str) -> FormattedText:
    """Convert one message. A text within the limit stays within it."""
    markdown = repair_surrogates(markdown)
    try:
        with foreign_code():
            # A table may be longer as a list; then the renderer draws it instead.
            versions = dict.fromkeys([render_tables(markdown), markdown])
            return next(filter(_fits, map(_render, versions)), FormattedText(markdown))
    except ForeignError as failure:
        log.warning("telegram.formatting_failed", error=str(failure), length=len(markdown))
        return FormattedText(markdown)


def _render(markdown: str) -> FormattedText:
    from telegramify_markdown.converter import convert  # noqa: PLC0415 - loading takes 60 ms

    source = escape_markdown(_dedent(markdown))
    text, entities = convert(source, latex_escape=False, config=_render_config())
    text = text.rstrip()
    return FormattedText(text, tuple(clean_entities(entities, utf16_length(text))))


def _fits(message: FormattedText) -> bool:
    return utf16_length(message.text) <= LIMIT and not is_blank(message.text)


def _dedent(markdown: str) -> str:
    """Remove the indentation of a message that continues a list: it would mean code."""
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
def _render_config() -> RenderConfig:
    """Return the renderer's configuration, without pictures in front of headings."""
    from telegramify_markdown import RenderConfig  # noqa: PLC0415 - likewise

    # The library's warnings quote formulas, and answers must not be logged.
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
