"""Token budget of a ledger beside a summary and the messages that stay."""

from __future__ import annotations

_LEDGER_SHARE = 0.20
"""Of the threshold, between the two bounds below."""
MIN_LEDGER_TOKENS = 320
_MAX_LEDGER_TOKENS = 3_000


def max_ledger(threshold_tokens: int) -> int:
    return min(max(MIN_LEDGER_TOKENS, int(threshold_tokens * _LEDGER_SHARE)), _MAX_LEDGER_TOKENS)


def ledger_budget(room: int, beside: int, beside_shortened: int, most: int) -> int:
    """What messages leave of the room, as they are or, if there is too little then, shortened.

    The ledger makes way before messages are shortened, down to its minimum.
    """
    left = room - beside if room - beside >= MIN_LEDGER_TOKENS else room - beside_shortened
    return min(max(MIN_LEDGER_TOKENS, left), most)
