"""Characters that pass for others, or for nothing. Who approves a command must see what will be run."""

from __future__ import annotations

import re
import unicodedata

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
