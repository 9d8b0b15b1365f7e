"""Joining an answer that was cut off with its continuation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.llm.retry import TELLING, OverlapTrimmer

TEXTS = st.text("ab \n", max_size=60) | st.text(max_size=20)


@given(shown=TEXTS, continuation=TEXTS, chunk=st.integers(1, 9))
def test_a_repetition_is_left_out_however_it_comes_in_chunks(
    shown: str, continuation: str, chunk: int
) -> None:
    """The same as comparing every end of what was shown with the beginning of what comes."""
    trimmer = OverlapTrimmer(shown)
    chunks = [continuation[at : at + chunk] for at in range(0, len(continuation), chunk)]

    new = "".join([*map(trimmer.feed, chunks), trimmer.flush()])

    assert new in {continuation[_overlap(shown, held) :] for held in _held(shown, continuation, chunk)}


def _held(shown: str, continuation: str, chunk: int) -> list[str]:
    """What was held back when the decision fell: all chunks up to the first that does not repeat anything."""
    if not shown:
        return [""]
    for end in range(chunk, len(continuation) + chunk, chunk):
        if continuation[:end] not in shown:
            return [continuation[:end]]
    return [continuation]


def _overlap(shown: str, held: str) -> int:
    for length in range(min(len(shown), len(held)), 0, -1):
        if held.startswith(shown[-length:]):
            telling = len("".join(filter(str.isalnum, shown[-length:])).encode()) >= TELLING
            return length if telling or length == len(shown) else 0
    return 0
