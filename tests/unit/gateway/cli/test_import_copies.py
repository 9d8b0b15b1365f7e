"""Rows that hermes-agent copied when it compressed are told from others by their order, not by call ids alone."""

from __future__ import annotations

from gateway.importers.hermes_agent import Copies, Key


def test_a_copied_call_is_the_one_that_its_neighbours_follow() -> None:
    """Some models number their calls from zero in every turn, so the same keys occur in each turn."""
    turn = [("calls", "call_0"), ("tool", "call_0")]
    said: list[Key] = [
        ("user", "one"),
        *turn,
        ("assistant", "first"),
        ("user", "two"),
        *turn,
        ("assistant", "second"),
    ]
    before = [(key, f"m{number}") for number, key in enumerate(said)]
    rows: list[Key | None] = [None, *turn, ("assistant", "second"), ("user", "three"), *turn]
    copies, found = Copies(before, rows), list[str | None]()
    for number, key in enumerate(rows):
        if key is None:
            copies.summary()
            continue
        found.append(copies.original_of(number, key))
        if found[-1] is None:
            copies.note(key, f"new{number}")
    assert found == ["m5", "m6", "m7", None, None, None]
