"""Characters that pass for others, or for nothing. Who approves a command must see what will be run."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

import regex  # type: ignore[import-untyped]

_ZERO_WIDTH = "\u00ad\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff"
_DIRECTION = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_SPACES = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())

UNSEEN = _SPACES + _ZERO_WIDTH + _DIRECTION
"""Characters that show nothing by themselves; a message of nothing else is refused as empty."""


def is_blank(text: str) -> bool:
    """Whether a reader would see nothing."""
    return not text.strip(UNSEEN)


def whole_characters(text: str) -> str:
    """A stream may be cut in the middle of an emoji; half of one cannot be sent, and � stands in its place."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


_GRAPHEME = regex.compile(
    r"(?P<plain>[\n -~]+)(?=[\n -~])"  # ASCII up to the last character, which a mark may follow
    r"|[\ud800-\udbff][\udc00-\udfff]"  # an emoji that a broken stream left in two halves
    # Flags by pairs: \X alone counts the halves before each one again, which is quadratic.
    r"|[\U0001f1e6-\U0001f1ff]{2}[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]*+"
    r"|\X"
)


def inside_graphemes(text: str) -> set[int]:
    """Return the positions at which a cut would split what a reader takes for one character."""
    return {
        position
        for found in _GRAPHEME.finditer(text)
        if found["plain"] is None
        for position in range(found.start() + 1, found.end())
    }


Measure = Callable[[str], int]
"""Every character counts for at least one, and a text for as much as its characters together: `len` is one."""


def utf16_units(text: str) -> int:
    """Characters beyond the basic plane, most emoji among them, count for two."""
    if text.isascii():
        return len(text)
    # A broken answer may hold half a surrogate pair; it still has a length.
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def longest_prefix(text: str, budget: int, measure: Measure) -> int:
    """How many characters of the text fit into the budget."""
    if budget <= 0:
        return 0
    enough, too_many = 0, min(len(text), budget) + 1
    while too_many - enough > 1:
        middle = (enough + too_many) // 2
        if measure(text[:middle]) <= budget:
            enough = middle
        else:
            too_many = middle
    return enough


_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_SHOWS_NOTHING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Counted among letters, marks and symbols all the same."""

_WORD = re.compile(r"\w+")
_OTHER_ALPHABETS = (
    "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "FULLWIDTH", "MODIFIER LETTER", "LATIN LETTER",
    "LATIN SMALL LETTER ALPHA", "LATIN SMALL LETTER SCRIPT",
)  # fmt: skip
_DISGUISED = ("MATHEMATICAL", "SCRIPT ", "DOUBLE-STRUCK ", "BLACK-LETTER ")

_TO_A_SHELL = frozenset("\"'`#$&|;<>()*?[]{}\\/~!=")
_LIKE_THEM = frozenset("“”„‟‘’‚‛′‵ˈˊˋʹʻʼʽ՚՝´ǃǀ∣❘∕⁄⧸∖⧵﹨∗∽∼")
"""Without being a form of them in Unicode's eyes."""
_DASH_FIRST = re.compile(r"(?<!\S)[\u2010-\u2015\u2212\ufe58\ufe63\uff0d](?=\w)")
_INNOCENT = re.compile(r"(?<=[^\W\d_])’(?=[^\W\d_])|(?<=[\u2190-\u2bff\U0001f000-\U0001faff])[\ufe0e\ufe0f]")
"""An apostrophe within a word, and what tells how an emoji is drawn."""


def written_out(text: str) -> str:
    """With everything that hides, reorders or could be taken for something else as its code.

    A letter of another alphabet counts only in a word with Latin ones, so that other languages stay readable.
    """
    if text.isascii() and text.isprintable():
        return text
    suspect = {
        place
        for word in _WORD.finditer(text)
        if re.search("[A-Za-z]", word[0])
        for place in range(*word.span())
        if unicodedata.name(text[place], "").startswith(_OTHER_ALPHABETS)
    }
    suspect.update(dash.start() for dash in _DASH_FIRST.finditer(text))
    innocent = {found.start() for found in _INNOCENT.finditer(text)}
    return "".join(
        code_of(character)
        if place in suspect or (_deceives(character) and place not in innocent)
        else character
        for place, character in enumerate(text)
    )


def code_of(character: str) -> str:
    """As a shell, Python and JavaScript write it, too."""
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _deceives(character: str) -> bool:
    if character in "\n\t" or " " <= character <= "~":
        return False
    kind = unicodedata.category(character)
    return (
        kind in (*_HIDDEN, "Zs")
        or _SHOWS_NOTHING.match(character) is not None
        or character in _LIKE_THEM
        or unicodedata.normalize("NFKC", character) in _TO_A_SHELL
        or unicodedata.name(character, "").startswith(_DISGUISED)
    )
