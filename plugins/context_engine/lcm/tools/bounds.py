"""How much a result may hold."""

from __future__ import annotations

from agent.tokens import cut_to_tokens, estimate_text_tokens

from ..place import Place

MOST_CHARACTERS = 11_500
"""The host shows 12,000 characters of a tool's result and cuts the middle out of a longer one. What the model asked for
word for word must not be cut, so a page ends before that."""

MOST_TOKENS = 12_000
LEAST_TOKENS = 500
"""A header and some words beneath it need room, even in the smallest of windows."""
_SHARE_OF_WINDOW = 3
_NOTE = "\n[The rest was left out. Ask for less at a time.]"


def most_tokens(place: Place, wanted: int = MOST_TOKENS) -> int:
    """No more than a third of the window, however much is asked for."""
    window = place.context_length // _SHARE_OF_WINDOW if place.context_length else MOST_TOKENS
    return max(LEAST_TOKENS, min(wanted, MOST_TOKENS, window))


def bounded(text: str, tokens: int, note: str = _NOTE) -> str:
    """The beginning, if all of it is too much."""
    if len(text) <= MOST_CHARACTERS and estimate_text_tokens(text) <= tokens:
        return text
    room = max(0, tokens - estimate_text_tokens(note))
    return cut_to_tokens(text[: MOST_CHARACTERS - len(note)], room) + note


def lines_that_fit(lines: list[str], tokens: int, more: str) -> list[str]:
    """As many as there is room for. `more` is a sentence with `{}` for the number of the others."""
    room = min(tokens, MOST_CHARACTERS // 4) - estimate_text_tokens(more) - 4
    for index, line in enumerate(lines):
        room -= estimate_text_tokens(line) + 1
        if room < 0:
            return [*lines[:index], more.format(f"{len(lines) - index:,}")]
    return lines
