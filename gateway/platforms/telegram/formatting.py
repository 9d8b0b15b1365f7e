"""Markdown as Telegram shows it: plain text and entities, so that there is nothing left for Telegram to parse.

Formatting is a courtesy: whenever it fails or does not fit, the text goes out as it was written.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import structlog
from telegram import MessageEntity

from gateway.platforms.telegram.entities import useful_entities
from gateway.text.characters import is_blank, whole_characters
from gateway.text.measure import utf16_units
from gateway.text.tables import readable_tables

if TYPE_CHECKING:
    from telegramify_markdown import RenderConfig

LIMIT = 4096
"""UTF-16 units in one message."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Formatted:
    text: str
    entities: tuple[MessageEntity, ...] = ()


def formatted(markdown: str) -> Formatted:
    """One message. What is not longer than the limit does not become so."""
    markdown = whole_characters(markdown)
    try:
        # A table may take more room as a list; then it has to do with the renderer's own drawing.
        candidates = (_rendered(version) for version in dict.fromkeys([readable_tables(markdown), markdown]))
        return next((found for found in candidates if _is_sendable(found)), Formatted(markdown))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:  # noqa: BLE001  a panic in the parser's Rust is no ordinary Exception
        log.warning("telegram.formatting_failed", error=type(problem).__name__, length=len(markdown))
        return Formatted(markdown)


def _rendered(markdown: str) -> Formatted:
    # 60 ms to load, not needed before the first answer.
    from telegramify_markdown.converter import STANDARD_OPTIONS, convert  # noqa: PLC0415

    from gateway.platforms.telegram.literal import literal  # noqa: PLC0415

    source = literal(_unindented(markdown), STANDARD_OPTIONS)
    text, entities = convert(source, latex_escape=False, config=_look())
    text = text.rstrip()
    return Formatted(text, tuple(useful_entities(entities, utf16_units(text))))


def _is_sendable(message: Formatted) -> bool:
    return utf16_units(message.text) <= LIMIT and not is_blank(message.text)


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
