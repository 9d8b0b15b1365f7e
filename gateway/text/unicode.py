"""Measures and checks Unicode text: graphemes, invisible characters, confusables."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any

_ZERO_WIDTH = "\u00ad\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff"
_DIRECTION = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_SPACES = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())

INVISIBLE = _SPACES + _ZERO_WIDTH + _DIRECTION
"""Characters without a glyph; chat services refuse a message that has no others as empty."""


def is_blank(text: str) -> bool:
    """Return whether the text has no visible character."""
    return not text.strip(INVISIBLE)


def repair_surrogates(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates by �: a broken stream may cut an emoji in half."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


@cache
def _grapheme_pattern() -> Any:
    import regex  # type: ignore[import-untyped]  # noqa: PLC0415  most commands split no text, and the import takes 10 ms

    return regex.compile(
        # Characters that join with no other one, up to the last of them, which a mark may follow.
        r"(?P<plain>[^\P{GCB=Other}\ud800-\udfff]+)(?=[^\P{GCB=Other}\ud800-\udfff])"
        r"|[\ud800-\udbff][\udc00-\udfff]"  # an emoji that a broken stream left in two halves
        # Flags by pairs: \X alone counts the halves before each one again, which is quadratic.
        r"|[\U0001f1e6-\U0001f1ff]{2}[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]*+"
        r"|\X"
    )


def inside_graphemes(text: str) -> set[int]:
    """Return the positions at which a cut would split what a reader takes for one character."""
    return {
        position
        for found in _grapheme_pattern().finditer(text)
        if found["plain"] is None
        for position in range(found.start() + 1, found.end())
    }


Measure = Callable[[str], int]
"""Returns the length of a text as a chat service counts it: the sum over its characters, each at least 1."""


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 code units: most emoji count as two."""
    if text.isascii():
        return len(text)
    # A broken answer may contain lone surrogates; they have a length, too.
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def prefix_length(text: str, budget: int, measure: Measure) -> int:
    """Return how many characters of the text fit into the budget."""
    if budget <= 0:
        return 0
    fits, too_long = 0, min(len(text), budget) + 1
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if measure(text[:middle]) <= budget:
            fits = middle
        else:
            too_long = middle
    return fits


HIDDEN_CATEGORIES = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_WITHOUT_GLYPH = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Invisible characters that Unicode counts as letters, marks or symbols."""

_WORD = re.compile(r"\w+")
_LATIN_LOOKALIKES = (
    "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "FULLWIDTH", "MODIFIER LETTER", "LATIN LETTER",
    "LATIN SMALL LETTER ALPHA", "LATIN SMALL LETTER SCRIPT",
)  # fmt: skip
_STYLED_LETTERS = ("MATHEMATICAL", "SCRIPT ", "DOUBLE-STRUCK ", "BLACK-LETTER ")

_SHELL_SYNTAX = frozenset("\"'`#$&|;<>()*?[]{}\\/~!=")
_SYNTAX_LOOKALIKES = frozenset("“”„‟‘’‚‛′‵ˈˊˋʹʻʼʽ՚՝´ǃǀ∣❘∕⁄⧸∖⧵﹨∗∽∼")
"""Look like shell syntax, but NFKC does not map them to it."""
_OPTION_DASH = re.compile(r"(?<!\S)[\u2010-\u2015\u2212\ufe58\ufe63\uff0d](?=\w)")
_HARMLESS = re.compile(r"(?<=[^\W\d_])’(?=[^\W\d_])|(?<=[\u2190-\u2bff\U0001f000-\U0001faff])[\ufe0e\ufe0f]")
"""An apostrophe within a word, and the variation selector of an emoji."""


def escape_confusables(text: str) -> str:
    """Escape every character that is invisible, reorders others or looks like ASCII.

    The person who approves a command must see what will run. A letter of another alphabet is escaped only in a word
    with Latin letters, so that other languages stay readable.
    """
    if text.isascii() and text.isprintable():
        return text
    confusable = {
        position
        for word in _WORD.finditer(text)
        if re.search("[A-Za-z]", word[0])
        for position in range(*word.span())
        if unicodedata.name(text[position], "").startswith(_LATIN_LOOKALIKES)
    }
    confusable.update(dash.start() for dash in _OPTION_DASH.finditer(text))
    harmless = {found.start() for found in _HARMLESS.finditer(text)}
    return "".join(
        escape_character(character)
        if position in confusable or (_is_deceptive(character) and position not in harmless)
        else character
        for position, character in enumerate(text)
    )


def escape_character(character: str) -> str:
    """Return the escape sequence that shells, Python and JavaScript understand."""
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _is_deceptive(character: str) -> bool:
    if character in "\n\t" or " " <= character <= "~":
        return False
    category = unicodedata.category(character)
    return (
        category in (*HIDDEN_CATEGORIES, "Zs")
        or _WITHOUT_GLYPH.match(character) is not None
        or character in _SYNTAX_LOOKALIKES
        or unicodedata.normalize("NFKC", character) in _SHELL_SYNTAX
        or unicodedata.name(character, "").startswith(_STYLED_LETTERS)
    )
