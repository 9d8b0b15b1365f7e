"""How strongly a message reminds of something that was said before."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Set as AbstractSet
from dataclasses import replace

from .natural import USUAL, look, words_of
from .postings import ALL_KEYS

_ENOUGH = 2.0
"""As much as so many words that occur nowhere else: one rare word alone may be a coincidence."""
_RARE = 0.02
_FEW = 2
"""A word in more messages than this share of them, and in more than a few, belongs to how people talk."""
_SMALL_TALK_TEXT = """
    ok okay yes yeah yep no nope sure right well oh wow haha lol hi hello hey bye goodbye morning evening night
    thanks thank thx cheers please sorry welcome congrats good great nice cool awesome amazing fine fun glad happy
    sound sounds love like want need think know see say said tell talk look let go going get got make take give
    keep catch check care soon later now today day time long again back more much many lot lots thing things way
    one two first last new really very definitely totally absolutely maybe always ever never too also only even
    still already anything something everything nothing here out off over done happen happened hope wait enjoy
    best better mean feel help try use kind sort stuff guys everyone people
"""
SMALL_TALK = frozenset(_SMALL_TALK_TEXT.split())
_CLOSE = replace(USUAL, before=USUAL.before[:2], after=USUAL.after[:2])
"""What is far apart did not come up together."""


def strong_matches(
    connection: sqlite3.Connection, conversation: int, text: str, among: AbstractSet[int] | None, limit: int
) -> list[tuple[int, float]]:
    """Keys of the messages, of `among` if that is given, and how strong each match is from 0 to 1. Best first.

    Two things must come together: most of what the text speaks of was spoken of there, and it is enough to speak of.
    """
    words = [word for word in words_of(text) if word.casefold() not in SMALL_TALK]
    if not words:
        return []
    seen = look(connection, [conversation], words, ALL_KEYS, _CLOSE)
    names = frozenset[str]().union(*seen.named.values())
    often = max(_FEW, _RARE * seen.total)
    usual = {each.word for each in seen.telling if len(each.keys) > often}
    rarest = math.log(1 + (seen.total + 0.5) / 0.5)
    weights = {each.word: each.weight(seen.total) for each in seen.telling}
    whole = sum(weights.get(word, rarest) for word in words if word.casefold() not in names)
    telling = replace(seen, telling=[each for each in seen.telling if each.word not in usual])
    matches = [
        (key, math.sqrt(min(1.0, score / whole) * min(1.0, score / (_ENOUGH * rarest))))
        for key, score in telling.scores(_CLOSE).items()
        if among is None or key in among
    ]
    matches.sort(key=lambda match: (-match[1], -match[0]))
    return matches[:limit]
