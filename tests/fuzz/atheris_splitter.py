"""Fuzz the splitter with coverage feedback.

It found more than random documents (`unit/gateway/text/test_splitter_found.py`). `make fuzz` runs it where `atheris` is
installed, which is not a dependency: `python -m tests.fuzz.atheris_splitter -max_total_time=300` runs it alone.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["gateway.text", "gateway.platforms.telegram.formatting"]):
    from gateway.platforms.telegram.formatting import LIMIT, format_markdown
    from gateway.text.code_blocks import find_long_code
    from gateway.text.splitter import split_first
    from gateway.text.tables import render_tables
    from gateway.text.unicode import Measure, utf16_length
    from tests.support.joined_text import split_text

from gateway.text.unicode import INVISIBLE
from tests.support.joined_text import is_whole

ALPHABET = " \n\t`~*_[]()|#->.a1中é👍\u200d\u0301\ufe0f\u200b\u200f🇩:!<&\\"
"""Everything that means something to Markdown."""
MEASURES: tuple[Measure, ...] = (len, utf16_length)


def check(data: bytes) -> None:
    source = atheris.FuzzedDataProvider(data)
    limit, measure = source.ConsumeIntInRange(16, 300), MEASURES[source.ConsumeBool()]
    if source.ConsumeBool():
        text = source.ConsumeUnicodeNoSurrogates(2000)
    else:
        text = "".join(ALPHABET[byte % len(ALPHABET)] for byte in source.ConsumeBytes(2000))
    _check_pieces(text, limit, measure)
    _check_growth(text, limit, measure)
    render_tables(text)
    find_long_code(text, longer_than=limit)
    for piece in split_text(text, LIMIT, utf16_length):
        _check_message(piece)


def _check_pieces(text: str, limit: int, measure: Measure) -> None:
    found = split_text(text, limit, measure)
    assert is_whole(text, found), (text, limit, found)
    assert all(measure(piece) <= limit and piece.strip(INVISIBLE) for piece in found), (text, limit, found)


def _check_growth(text: str, limit: int, measure: Measure) -> None:
    piece, rest = split_first(text[: len(text) * 2 // 3], limit, measure)
    if rest:
        final, final_rest = split_first(text, limit, measure)
        assert piece == final and final_rest.startswith(rest), (text, limit)


def _check_message(piece: str) -> None:
    message = format_markdown(piece)
    length = utf16_length(message.text)
    assert 0 < utf16_length(message.text.strip()) <= LIMIT, piece
    for entity in message.entities:
        assert entity.length > 0, piece
        assert 0 <= entity.offset <= entity.offset + entity.length <= length, piece


if __name__ == "__main__":
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()
