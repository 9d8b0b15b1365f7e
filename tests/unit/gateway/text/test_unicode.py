"""Graphemes: the positions at which a text must not be cut."""

import regex  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.unicode import inside_graphemes

_PARTS = [
    "a",
    "я",
    "漢",
    " ",
    "\n",
    "\r",
    "\u0301",
    "👩",
    "\u200d",
    "🇩",
    "🏽",
    "\ufe0f",
    "ก",
    "ำ",
    "क",
    "ि",
    "한",
    "\u11a8",
    "\u0600",
]


@given(st.lists(st.one_of(st.sampled_from(_PARTS), st.characters(codec="utf-8")), max_size=12).map("".join))
def test_graphemes_are_those_of_unicode(text: str) -> None:
    """The fast pattern finds the same graphemes as `\\X`."""
    inside = set(range(1, len(text)))
    position = 0
    for grapheme in regex.findall(r"\X", text):
        position += len(grapheme)
        inside.discard(position)
    assert inside_graphemes(text) == inside


def test_surrogate_halves_stay_together() -> None:
    """A broken stream may leave an emoji in two halves, which `repair_surrogates` joins before they are sent."""
    assert inside_graphemes("a\ud83d\ude00b") == {2}
